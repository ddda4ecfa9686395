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
  std::int64_t parts = 0;                    // most parts of all rows; 0: never
  std::int64_t fewest_parts = 0;             // with fewer it does not pay
  std::int64_t least_bytes = 0;              // below, the second step costs more than it saves
  std::int64_t least_row_bytes = INT64_MAX;  // or contiguous rows as long as this
  std::int64_t most_rows = 0;                // above, the rows keep the target busy
  std::int64_t shortest_part = 0;            // elements
  /// For strided rows, which are computed side by side: in lines of 128 bytes.
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

/// Operands in few bits that kernels of an operator compute on as they are.
struct OperandFormats {
  std::string_view op;     // "MatMul", "Conv", "Attention"
  DType left;              // x, or queries
  std::string_view right;  // codes (ir/scale_format.h) of weights, or of keys and values
  bool scaled = false;     // these have scales; otherwise results are sums of products of codes
  /// Multiple that groups of scales must be, unless they are all of k, and heads of attention; of k
  /// or channels without scales: from which they are faster than in 16 bits.
  std::int64_t unit = 1;
  std::int64_t least = 1, most = INT64_MAX;  // columns; heads
  bool zeros_in_left = false;                // zero points are converted to the left type
};

/// Describes a target completely: no pass asks for its name.
struct TargetTraits {
  /// Regions become generated kernels; otherwise programs that the runtime interprets.
  bool generates_kernels = false;
  bool approximates_functions = false;  // erf, tanh etc. use cheaper forms by default
  /// Bytes of traffic that take as long as one more step: the saving of a launch.
  double launch_bytes = 0;
  double multiprocessors = 0;       // that run blocks at the same time
  bool reduces_strided = false;     // strided reductions are as fast as contiguous ones
  bool reductions_scatter = false;  // regions with reductions may scatter their results
  ReductionSplit reduction_split;
  bool has_conv = false;  // a dedicated float32 convolution exists (CPU: oneDNN)
  bool has_integer_matmul = false;
  bool matmul_epilogue_gelu_erf = false;
  bool matmul_epilogue_gelu_tanh = false;
  bool matmul_epilogue_relu = true;
  bool matmul_epilogue_residual = true;
  bool matmul_stores_columns = false;  // matmuls may store column-major results
  /// A library adds a bias or a residual only to row-major results.
  bool matmul_epilogue_by_rows = false;
  // Convolutions and their neighbours use channels last: for float32, or for any float.
  // conv_as_kernels: convolutions that are matmuls or windowed sums become those, for our kernels.
  bool conv_channels_last = false, conv_any_float = false, conv_as_kernels = false;
  // Epilogues of convolutions of kind "conv": a residual, and activations by operator.
  bool conv_epilogue_residual = false;
  std::set<std::string, std::less<>> conv_epilogue_activations;
  bool attention = false;  // one kernel for attention in float16 and bfloat16
  /// Queries that share keys up to which its blocks compute them and the new cache rows
  /// themselves; 0: never.
  std::int64_t attention_prologue_rows = 0;
  // Types of attention steps that the runtime implements, for any known head size.
  std::set<DType> attention_steps;
  // Element types with a single-kernel recurrent layer, and its most units.
  std::map<DType, std::int64_t> recurrent_units;
  bool horizontal = false;  // many small regions in one launch
  HorizontalLimits horizontal_limits;
  bool gemm_kernels = false;  // our GEMM kernels, with any region as epilogue
  /// Operations above which a matmul of 16 bits repays a copy of a transposed left operand whose
  /// columns do not start at multiples of 16 bytes; 0: never.
  double unaligned_flops = 0;
  PrologueLimits gemm_prologue;
  std::int64_t few_rows = 0;     // of a matmul whose time is that of loading its weights
  double conv_kernel_flops = 0;  // above this count of operations a convolution uses the library
  std::vector<OperandFormats> formats;

  /// The row of these operands; null: the target does not take them.
  const OperandFormats* takes(std::string_view op, DType left, std::string_view right,
                              bool scaled) const {
    return find([&](const OperandFormats& row) {
      return row.op == op && row.left == left && row.right == right && row.scaled == scaled;
    });
  }
  /// The same for codes of 8 bits whose sums are the results.
  const OperandFormats* sums(std::string_view op, DType left, DType right) const {
    return takes(op, left, to_string(right), false);
  }
  /// The first row of `op`, beside any or a certain left operand.
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
