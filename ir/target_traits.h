// SPDX-License-Identifier: Apache-2.0
// Capabilities of a target, as passes and lowering query them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/dtype.h>

namespace sinter::ir {

/// When to split reductions of few long rows into two steps, over parts and over their results.
struct ReductionSplit {
  std::int64_t parts = 0;         // maximum number of parts over all rows; 0: never
  std::int64_t fewest_parts = 0;  // minimum number of parts; fewer do not pay
  std::int64_t least_bytes = 0;   // minimum size; below, the second step costs more than it saves
  std::int64_t least_row_bytes = INT64_MAX;  // minimum length of contiguous rows
  std::int64_t most_rows = 0;      // maximum number of rows; above, the rows keep the target busy
  std::int64_t shortest_part = 0;  // minimum elements per part
  /// For strided rows, which are computed side by side in lines of 128 bytes.
  std::int64_t most_lines = 0, shortest_column = 0;
  /// Rows of strided runs stay whole if all of them have at most `held_bytes`, and the adjacent
  /// rows whose runs fill `run_bytes` have at most `held_row_bytes`.
  std::int64_t held_bytes = 0, held_row_bytes = 0, run_bytes = 1;
};

/// When independent regions share a launch.
struct HorizontalLimits {
  double block_share = 1;  // of the memory bandwidth, by one block
  /// A kernel of its own maps adjacent threads to adjacent strided rows, and transposes through
  /// tiles. A shared one does neither, which matters little for strided rows that are short or few
  /// and for transposes of few bytes.
  double short_row = 0, strided_rows = 0, small_transpose = 0;
};

/// Rows that each block of a GEMM computes anew, while its weights are being loaded. With more
/// columns, several waves of blocks would each wait for them.
struct PrologueLimits {
  std::int64_t rows = 0, elements = 0, columns = 0;
};

/// Low-precision operands that an operator's kernels use without dequantizing them first.
struct OperandFormats {
  std::string_view op;     // "MatMul", "Conv", "Attention"
  DType left;              // x, or queries
  std::string_view right;  // codes (ir/scale_format.h) of weights, or of keys and values
  bool scaled = false;  // `right` has scales; otherwise the results are the raw sums of products of
                        // codes
  /// With scales: groups of scales (unless one group is all of k) and heads of attention must be
  /// multiples of this; so must be columns of a GroupedMatMul. Without scales: k or the number of
  /// channels from which these kernels are faster than 16-bit ones.
  std::int64_t unit = 1;
  std::int64_t least = 1, most = INT64_MAX;  // columns; heads; `most`: groups, experts of a
                                             // Route, key channels of a LinearAttention
  bool zeros_in_left = false;                // zero points are converted to the left type
  bool offsets = false;                      // groups may have offsets
};

/// Describes a target completely: no pass checks the target's name.
struct TargetTraits {
  /// Regions become generated kernels; otherwise programs that the runtime interprets.
  bool generates_kernels = false;
  bool approximates_functions = false;  // erf, tanh etc. use cheaper forms by default
  /// Bytes of traffic that take as long as one more step: the saving of a launch.
  double launch_bytes = 0;
  double multiprocessors = 0;       // number that run blocks concurrently
  bool reduces_strided = false;     // strided reductions are as fast as contiguous ones
  bool reductions_scatter = false;  // regions with reductions may scatter their results
  ReductionSplit reduction_split;
  bool has_conv = false;  // a dedicated float32 convolution exists (CPU: oneDNN)
  bool has_integer_matmul = false;
  bool matmul_epilogue_gelu_erf = false;
  bool matmul_epilogue_gelu_tanh = false;
  bool matmul_epilogue_relu = true;
  bool matmul_epilogue_residual = true;
  bool matmul_stores_columns = false;  // matmuls can store column-major results
  /// A library adds a bias or a residual only to row-major results.
  bool matmul_epilogue_by_rows = false;
  // Convolutions and their neighbours use channels last: for float32, or for any float.
  // conv_as_kernels: convolutions that are matmuls or windowed sums use Sinter's kernels for those.
  bool conv_channels_last = false, conv_any_float = false, conv_as_kernels = false;
  // Epilogues of convolutions of kind "conv": a residual, and activations by operator.
  bool conv_epilogue_residual = false;
  std::set<std::string, std::less<>> conv_epilogue_activations;
  bool attention = false;  // one kernel for attention in float16 and bfloat16
  /// And for exact float32 attention without a mask whose scores take more bytes than this; those
  /// that fit the L2 are as well stored. 0: never.
  std::int64_t float32_attention_bytes = 0;
  /// Up to this number of queries that share keys, the attention kernel's blocks also compute the
  /// queries and the new cache rows; 0: never.
  std::int64_t attention_prologue_rows = 0;
  // Types of attention steps that the runtime implements, for any known head size.
  std::set<DType> attention_steps;
  // Element types with a single-kernel recurrent layer, and its maximum number of units.
  std::map<DType, std::int64_t> recurrent_units;
  bool horizontal = false;  // fuses many small regions into one launch
  HorizontalLimits horizontal_limits;
  bool gemm_kernels = false;  // our GEMM kernels, with any region as epilogue
  /// Above this number of operations, a matmul by tensor cores pays for a copy of its left operand.
  /// It concerns transposed operands whose columns are not aligned to 16 bytes. 0: never.
  double unaligned_flops = 0;
  PrologueLimits gemm_prologue;
  std::int64_t few_rows = 0;  // up to this number of rows, loading the weights dominates a matmul's
                              // time
  double conv_kernel_flops = 0;  // convolutions with more operations use the library
  std::vector<OperandFormats> formats;

  /// The row for these operands; null: the target does not support them.
  const OperandFormats* takes(std::string_view op, DType left, std::string_view right,
                              bool scaled) const {
    return find([&](const OperandFormats& row) {
      return row.op == op && row.left == left && row.right == right && row.scaled == scaled;
    });
  }
  /// The same for 8-bit codes whose raw sums are the results.
  const OperandFormats* sums(std::string_view op, DType left, DType right) const {
    return takes(op, left, to_string(right), false);
  }
  /// The first row of `op` with the given left operand, or with any.
  const OperandFormats* first_of(std::string_view op, bool scaled,
                                 std::optional<DType> left = {}) const {
    return find([&](const OperandFormats& row) {
      return row.op == op && row.scaled == scaled && (!left || row.left == *left);
    });
  }

 private:
  template <class Is>
  const OperandFormats* find(const Is& is) const {
    for (const OperandFormats& row : formats)
      if (is(row)) return &row;
    return nullptr;
  }
};

}  // namespace sinter::ir
