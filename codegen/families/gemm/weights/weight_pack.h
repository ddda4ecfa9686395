// Weights in the order in which the kernels of this family read them (packed_weights.cuh,
// unpack.cuh), and which of them kernels take.
#pragma once

#include <optional>
#include <string>

#include "codegen/families/gemm/gemm_lowering.h"
#include "ir/quantized.h"

namespace sinter::codegen {

/// k of packed weights is filled up to a multiple of this, so that no step of a kernel is cut
/// short.
inline constexpr std::int64_t kPackedDepth = 256;
/// Columns of a unit.
inline constexpr std::int64_t kPackedColumns = 16;

inline std::int64_t packed_depth(std::int64_t k) {
  return (k + kPackedDepth - 1) / kPackedDepth * kPackedDepth;
}

/// Units of 16 columns by 32 (8 bits), 64 (4 bits) or 16 (elements of 16) of k: all of k, then the
/// next 16 columns. A unit is 16 bytes for each lane of a warp. With g = lane / 4 and
/// t = lane % 4 * 2, number i of a lane's is of column g + i / 2 % 2 * 8 and
/// k = i / 8 * 16 + i / 4 % 2 * 8 + t + i % 2 .. where i counts fragments (16 of k), halves of k,
/// halves of columns, neighbours. Elements lie in this order. Of 8 bits, a word holds a column of a
/// fragment, k's t, t + 8, t + 1, t + 9 from the lowest byte on; of 4 bits, it holds a fragment,
/// the same k's in its bytes, the upper column in their upper halves. Integers are biased to be
/// unsigned. What is added to fill up the columns and k stands for zero.
///
/// Beside rows of x of 8 bits (of weights of 4) a lane's four numbers of a column and fragment are
/// neighbours in k, as the fragments of products of bytes have them: of byte i of the word, k =
/// lane % 4 * 4 + i.
struct PackedWeights {
  ir::Tensor values;                // u8 [columns / 16, depth / (32 or 64), 512]
  ir::Tensor scales;                // [columns / 16, groups, 16], filled up with zeros
  std::optional<ir::Tensor> zeros;  // the same of x's type
  bool zeros_of_four_bits = false;  // all are integers of -8 .. 7; asked for beside x of 8 bits
};

/// Groups that a packed row has; `group` as in ir::QuantizedWeights.
inline std::int64_t packed_groups(std::int64_t group, std::int64_t k) {
  return group == 0 || group >= k ? 1 : (packed_depth(k) + group - 1) / group;
}

/// Why the kernels do not take weights with such groups; empty if they do.
std::string refuse_groups(std::int64_t group, std::int64_t k);

/// `x_type`: f16, bf16 or, for weights of 4 bits, f8e4m3fn, whose zero points are f16. Scales
/// become f16 or bf16 if that changes none of them, else f32. Throws Error(kUnsupported) if the
/// groups are refused or a zero point is too large for its type.
PackedWeights pack_weights(const ir::QuantizedWeights& weights, DType x_type);

/// Elements of 16 bits, [k, n] if `rows_are_k`, else [n, k], as PackedWeights::values.
ir::Tensor pack_elements(const ir::Tensor& weights, bool rows_are_k);

/// Why the product's weights cannot be packed; empty if they can, its parts being whole units.
std::string refuse_packing(const GemmProgram& product);

/// Neighbouring k's with one scale within a kernel's main loop; 0: scales are applied behind it.
std::int64_t loop_group(const GemmProgram& product);

/// The type of packed zero points beside x of `type`, which kernels for few rows multiply in, too.
inline DType multiplied_type(DType type) { return is_float8(type) ? DType::kFloat16 : type; }

/// "PackedBytes, Scales<f16, 128, true>": packed weights and the scales of `group` k's each.
std::string packed_weights_type(const GemmWeights& weights, std::int64_t group);

}  // namespace sinter::codegen
