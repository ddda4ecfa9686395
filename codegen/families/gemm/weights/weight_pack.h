// SPDX-License-Identifier: Apache-2.0
// Packs weights in the order in which kernels read them (packed_weights.cuh, unpack.cuh), and
// decides which weights kernels accept.
#pragma once

#include <optional>
#include <string>

#include "codegen/families/gemm/gemm_lowering.h"
#include "ir/scale_format.h"

namespace sinter::codegen {

/// k of packed weights is padded to a multiple of this, so that every step of a kernel is
/// whole.
inline constexpr std::int64_t kPackedDepth = 256;
/// Columns of a unit.
inline constexpr std::int64_t kPackedColumns = 16;

inline std::int64_t packed_depth(std::int64_t k) {
  return (k + kPackedDepth - 1) / kPackedDepth * kPackedDepth;
}

/// Units of 16 columns by 32 (8 bits), 64 (4 bits) or 16 (16 bits) of k: first all of k, then the
/// next 16 columns. A unit has 16 bytes for each lane of a warp. With g = lane / 4 and t = lane % 4
/// * 2, a lane's number i is column g + i / 2 % 2 * 8 and k = i / 8 * 16 + i / 4 % 2 * 8 + t + i %
/// 2: i counts fragments (16 k's), halves of k, halves of columns, neighbours. 16-bit elements have
/// this order. With 8 bits, a word holds a fragment's column: k's t, t + 8, t + 1, t + 9 from the
/// lowest byte on. With 4 bits, a word holds a fragment: the same k's in its bytes, the upper
/// column in the upper nibbles. Integers are biased to be unsigned. Padding of columns and k
/// represents zero.
///
/// For 8-bit rows of x (with 4-bit weights) a lane's four numbers of a column and fragment are
/// consecutive k's, as in fragments of 8-bit MMAs: byte i of the word is k = lane % 4 * 4 + i.
struct PackedWeights {
  ir::Tensor values;                  // u8 [columns / 16, depth / (32 or 64), 512]
  ir::Tensor scales;                  // [columns / 16, groups, 16], zero-padded
  std::optional<ir::Tensor> zeros;    // likewise, of x's type
  std::optional<ir::Tensor> factors;  // f32, one for each column
  bool zeros_of_four_bits = false;    // all are in -8 .. 7; used with 8-bit x
};

/// Groups in a packed row; `group` as ir::ScaleFormat::depth.
inline std::int64_t packed_groups(std::int64_t group, std::int64_t k) {
  return group == 0 || group >= k ? 1 : (packed_depth(k) + group - 1) / group;
}

/// Why the kernels refuse weights with such groups; empty if they accept them.
std::string refuse_groups(std::int64_t group, std::int64_t k);

/// `x_type`: f16, bf16 or, for 4-bit weights, f8e4m3fn, with f16 zero points. Scales become f16 or
/// bf16 if all are exact, otherwise f32. Those of 8 bits become e4m3 with a factor for each column,
/// of NVFP4 and MXFP4 alike; with one group, or where an e8m0 is too small, they are as others.
/// None is rounded. Throws Error(kUnsupported) if the groups are refused or a zero point exceeds
/// its type.
PackedWeights pack_weights(const ir::ScaledTensor& weights, DType x_type);

/// 16-bit elements, [k, n] if `rows_are_k`, otherwise [n, k]; packed like PackedWeights::values.
ir::Tensor pack_elements(const ir::Tensor& weights, bool rows_are_k);

/// Why the GEMM's weights cannot be packed; empty if they can. Parts must be whole units.
std::string refuse_packing(const GemmProgram& product);

/// Consecutive k's with one scale in a kernel's mainloop; 0: scales are applied after it.
std::int64_t loop_group(const GemmProgram& product);

/// Type of packed zero points for x of `type`; small-M kernels also multiply in it.
inline DType multiplied_type(DType type) { return is_float8(type) ? DType::kFloat16 : type; }

/// "PackedBytes, Scales<f16, 128, true>": type of packed weights with a scale for each `group` k's.
std::string packed_weights_type(const GemmWeights& weights, std::int64_t group);

}  // namespace sinter::codegen
