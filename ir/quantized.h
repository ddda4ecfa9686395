// Quantized weights: what the operands of QuantMatMul mean.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ir/attributes.h"
#include "ir/constants/recipe.h"
#include "ir/tensor.h"

namespace sinter::ir {

/// w[n, k] = (q[n, k] - zero[n, k / group]) * scale[n, k / group].
///
/// 8 bits: `values` is [n, k] of i8 or f8e4m3fn, the numbers themselves; floats have no zero
/// points. 4 bits: it is [n, ceil(k / 2)] of u8, two numbers to a byte, that of even k in the low
/// half; a half holds q + 8, so that q is -8..7. Scales are [n, groups] of f16, bf16 or f32; zero
/// points, if there are any, [n, groups] of i8 (in the range of q) or of f32 (any number).
struct QuantizedWeights {
  int bits = 8;
  std::int64_t group = 0;  // elements along k that share a scale; 0: all of them
  std::int64_t k = 0;
  Tensor values, scales;
  std::optional<Tensor> zero_points;

  std::int64_t n() const { return values.shape()[0]; }
  bool are_floats() const { return is_float8(values.dtype()); }
};

/// How many groups k elements make; `group` as in QuantizedWeights.
std::int64_t group_count(std::int64_t k, std::int64_t group);

/// Rows of `columns` numbers in -8..7 as bytes of two; the last half of an odd row is a zero.
Tensor pack_four_bits(std::span<const std::int8_t> values, std::int64_t rows, std::int64_t columns);
/// The numbers q, [n, k], unpacked.
Tensor unpacked_values(const QuantizedWeights& weights);
/// Operands of a QuantMatMul behind x; attributes are its own, k and the type of dequantized().
extern const Transform kDequantized;
/// The weights as they are multiplied, [n, k] of `dtype`; rounded once.
Tensor dequantized(const QuantizedWeights& weights, DType dtype);

/// The weights of a QuantMatMul with these attributes, whose x has `k` columns; `operands` are its
/// weight, scales and perhaps zero points.
QuantizedWeights weights_of(const Attrs& attrs, std::span<const Tensor> operands, std::int64_t k);

}  // namespace sinter::ir
