// SPDX-License-Identifier: Apache-2.0
// Capabilities of a target, as passes and lowering query them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <sinter/dtype.h>

namespace sinter::ir {

/// When to split reductions of few long rows into two steps, over parts and over their results.
struct ReductionSplit {
  std::int64_t parts = 0;          // most parts of all rows; 0: never
  std::int64_t fewest_parts = 0;   // with fewer it does not pay
  std::int64_t least_bytes = 0;    // below, the second step costs more than it saves
  std::int64_t most_rows = 0;      // above, the rows keep the target busy
  std::int64_t shortest_part = 0;  // elements
  /// For strided rows, which are computed side by side: in lines of 128 bytes.
  std::int64_t most_lines = 0, shortest_column = 0;
  /// Rows of strided runs stay whole if all of them have at most `held_bytes`, and the adjacent
  /// rows whose runs fill `run_bytes` have at most `held_row_bytes`.
  std::int64_t held_bytes = 0, held_row_bytes = 0, run_bytes = 1;
};

/// Head sizes of 8-bit attention (is_eight_bit_attention) that a target supports.
struct EightBitHeads {
  std::int64_t unit = 1, least = 1, most = 0;  // multiples of unit; most 0: none
};

/// Describes a target completely: no pass asks for its name.
struct TargetTraits {
  /// Regions become generated kernels; otherwise programs that the runtime interprets.
  bool generates_kernels = false;
  bool approximates_functions = false;  // erf, tanh etc. use cheaper forms by default
  /// Bytes of traffic that take as long as one more step: the saving of a launch.
  double launch_bytes = 0;
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
  /// Its blocks compute the queries and the new cache rows themselves.
  bool attention_prologue = false;
  // Types of attention steps that the runtime implements, for any known head size.
  std::set<DType> attention_steps;
  /// 8-bit types of its keys and values, with a scale for each row (ir/scaled_rows.h), and the
  /// multiple that heads must be then.
  std::set<DType> attention_scaled_rows;
  std::int64_t attention_scaled_head = 1;
  EightBitHeads attention_eight_bit;
  // Element types with a single-kernel recurrent layer, and its most units.
  std::set<DType> recurrent_types;
  std::int64_t recurrent_units = 0;
  bool horizontal = false;       // many small regions in one launch
  bool gemm_kernels = false;     // our GEMM kernels, with any region as epilogue
  double conv_kernel_flops = 0;  // above this count of operations a convolution uses the library
  // Types of x for matmuls with quantized weights; other types dequantize the weights.
  std::set<DType> quantized_matmul;
  /// Pairs of 8-bit types (x's and the weights') that MatMul, and that Conv, multiply directly
  /// (ir/ops/product_types.h).
  std::set<std::pair<DType, DType>> narrow_products, narrow_convs;
  /// Multiple of k (of channels for convolutions) from which such matmuls are faster than 16-bit
  /// ones.
  std::int64_t narrow_unit = 1;
  bool quantized_floats = false;  // also f8e4m3fn weights
  int quantized_group = 1;        // multiple that groups must be, unless they are all of k
  std::int64_t quantized_least_columns = 1;  // of such a matmul
  bool quantized_zeros_in_type = false;      // zero points are converted to x's type
};

}  // namespace sinter::ir
