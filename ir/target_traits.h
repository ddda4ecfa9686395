// What a target can do, as far as the passes and the lowering of regions ask.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <sinter/dtype.h>

namespace sinter::ir {

/// When few long rows are reduced in two steps, of parts and of their results.
struct ReductionSplit {
  std::int64_t parts = 0;          // of all rows, at most; 0: never
  std::int64_t fewest_parts = 0;   // fewer are not worth it
  std::int64_t least_bytes = 0;    // below, a second step costs more than it saves
  std::int64_t most_rows = 0;      // more keep the target busy by themselves
  std::int64_t shortest_part = 0;  // elements
  /// The same of rows whose elements are far apart, which are done side by side: lines of 128 bytes
  /// of them.
  std::int64_t most_lines = 0, shortest_column = 0;
  /// Rows whose elements lie in runs, a stride apart, stay whole where all of them have no more
  /// than `held_bytes`, and no more than `held_row_bytes` those neighbours whose runs fill
  /// `run_bytes`.
  std::int64_t held_bytes = 0, held_row_bytes = 0, run_bytes = 1;
};

/// Heads of attention of 8 bits (is_eight_bit_attention) that a target has a kernel for.
struct EightBitHeads {
  std::int64_t unit = 1, least = 1, most = 0;  // multiples of the first; most 0: none
};

/// A target is described by these alone: nothing asks for its name.
struct TargetTraits {
  /// Regions become kernels that the compiler writes; else they are programs that the runtime
  /// interprets.
  bool generates_kernels = false;
  bool approximates_functions = false;  // erf, tanh and the like are cheaper forms unless asked
  /// Bytes of traffic that take as long as one more step: what fusing saves beside memory.
  double launch_bytes = 0;
  bool reduces_strided = false;     // a reduction is as fast where its elements lie apart in memory
  bool reductions_scatter = false;  // a region that reduces may put results where indices say
  ReductionSplit reduction_split;
  bool has_conv = false;  // a dedicated float32 convolution exists (CPU: oneDNN)
  bool has_integer_matmul = false;
  bool matmul_epilogue_gelu_erf = false;
  bool matmul_epilogue_gelu_tanh = false;
  bool matmul_epilogue_relu = true;
  bool matmul_epilogue_residual = true;
  bool matmul_stores_columns = false;  // a product's result may lie by columns
  /// A library adds a bias or a residual to results that are stored by rows alone.
  bool matmul_epilogue_by_rows = false;
  // Convolutions and all around them with channels last: of float32, or of any float; and what is
  // a product or a sum over windows spelled as such, so that kernels of our own take it.
  bool conv_channels_last = false, conv_any_float = false, conv_as_kernels = false;
  // What the convolutions of kind "conv" end with: a residual, and activations, by operator.
  bool conv_epilogue_residual = false;
  std::set<std::string, std::less<>> conv_epilogue_activations;
  bool attention = false;  // one kernel for attention in float16 and bfloat16
  /// That kernel makes its queries and the new rows of its caches itself.
  bool attention_prologue = false;
  // Types of attention that the runtime does itself, of heads of any known size.
  std::set<DType> attention_steps;
  /// Types of 8 bits that its keys and values may have, with a scale for each row
  /// (ir/scaled_rows.h), and what heads are multiples of then.
  std::set<DType> attention_scaled_rows;
  std::int64_t attention_scaled_head = 1;
  EightBitHeads attention_eight_bit;
  // Element types for which a recurrent layer is one kernel, and the most units that it may have.
  std::set<DType> recurrent_types;
  std::int64_t recurrent_units = 0;
  bool horizontal = false;       // many small regions in one launch
  bool gemm_kernels = false;     // our own products, which any region may follow
  double conv_kernel_flops = 0;  // beyond so many operations a convolution is a library's instead
  // Types of x for which products with quantized weights exist; others multiply float weights.
  std::set<DType> quantized_matmul;
  /// Pairs of operands of 8 bits that MatMul, and that Conv, multiply as they are, x's type and the
  /// weights' (ir/ops/product_types.h).
  std::set<std::pair<DType, DType>> narrow_products, narrow_convs;
  /// What neighbours along the sum, of a convolution channels, are multiples of where such products
  /// are faster than those of 16 bits.
  std::int64_t narrow_unit = 1;
  bool quantized_floats = false;  // weights may be f8e4m3fn there, too
  int quantized_group = 1;        // what groups, if they are not all of k, are multiples of
  std::int64_t quantized_least_columns = 1;  // of such a product
  bool quantized_zeros_in_type = false;      // zero points become numbers of x's type
};

}  // namespace sinter::ir
