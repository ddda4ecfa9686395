// SPDX-License-Identifier: Apache-2.0
// Quantized weights: the meaning of QuantMatMul's operands.
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
/// 8 bits: `values` is [n, k] of i8 or f8e4m3fn, the numbers q; floats have no zero points. 4 bits:
/// `values` is [n, ceil(k / 2)] of u8 with two numbers a byte, even k in the low nibble; a nibble
/// is q + 8, so that q is -8..7. Scales are [n, groups] of f16, bf16 or f32. Optional zero points
/// are [n, groups] of i8 (in the range of q) or of f32 (any number).
struct QuantizedWeights {
  int bits = 8;
  std::int64_t group = 0;  // consecutive k's that share a scale; 0: all
  std::int64_t k = 0;
  Tensor values, scales;
  std::optional<Tensor> zero_points;

  std::int64_t n() const { return values.shape()[0]; }
  bool are_floats() const { return is_float8(values.dtype()); }
};

/// Number of groups of k elements; `group` as in QuantizedWeights.
std::int64_t group_count(std::int64_t k, std::int64_t group);

/// Packs rows of `columns` numbers in -8..7 into nibbles; an odd row is padded with zero.
Tensor pack_four_bits(std::span<const std::int8_t> values, std::int64_t rows, std::int64_t columns);
/// The numbers q, [n, k], unpacked.
Tensor unpacked_values(const QuantizedWeights& weights);
/// Inputs: QuantMatMul's operands after x; attributes: its own, k and the type of dequantized().
extern const Transform kDequantized;
/// The dequantized weights, [n, k] of `dtype`, rounded once.
Tensor dequantized(const QuantizedWeights& weights, DType dtype);

/// The weights of a QuantMatMul with these attributes, whose x has `k` columns; `operands` are its
/// weight, scales and optional zero points.
QuantizedWeights weights_of(const Attrs& attrs, std::span<const Tensor> operands, std::int64_t k);

}  // namespace sinter::ir
