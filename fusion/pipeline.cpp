#include "fusion/pipeline.h"

#include "fusion/passes/passes.h"

namespace sinter::fusion {

const std::vector<Pass>& pipeline() {
  // States are found in the model's own spelling; quantize_weights comes next, since what is left
  // of dequantizations is folded into float weights; recognise sees the model's own spelling;
  // scales are folded into weights before those are rounded to a lower precision; simplify runs
  // after lower_precision to remove the casts that meet; attention is found while softmax is one
  // node, and takes in its views once the projections that it reads are slices of one; projections
  // are merged before views are folded into products, since the slices are views too, and so are
  // weights that are laid out the other way round; reductions pick their neighbours before what is
  // left becomes pointwise regions.
  static const std::vector<Pass> passes = {
      {"find_states", find_states, false, false},
      {"quantize_weights", quantize_weights},
      {"fold_constants", fold_constants},
      {"recognise", recognise, true},
      {"fold_scales", fold_scales, true},
      {"lower_precision", lower_precision},
      {"simplify", simplify, true},
      {"recognise_attention", recognise_attention, true},
      {"decompose", decompose},
      {"channels_last", channels_last, true},
      {"merge_projections", merge_projections, true},
      {"lay_out_weights", lay_out_weights, true},
      {"fuse_attention", fuse_attention, true},
      {"fuse_matmul", fuse_matmul, true},
      {"split_reductions", split_reductions, true},
      {"fuse_reductions", fuse_reductions, true},
      {"fuse_pointwise", fuse_pointwise, true},
      {"fuse_cache_rows", fuse_cache_rows, true},
      {"fuse_gemm", fuse_gemm, true},
      {"fuse_horizontal", fuse_horizontal, true},
      {"wrap_singletons", wrap_singletons},
  };
  return passes;
}

}  // namespace sinter::fusion
