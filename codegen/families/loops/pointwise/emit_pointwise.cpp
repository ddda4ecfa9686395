// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels: threads along all elements, `unroll` vectors each. A thread's vectors are a
// block's width apart, so that adjacent threads access adjacent vectors.
#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

ThreadMapping map_pointwise(const ProgramAnalysis& analysis, const Schedule& schedule,
                            Arguments& args) {
  ThreadMapping mapping =
      start_mapping(analysis, schedule, 0, analysis.outer_dims() | analysis.inner_dims());
  VectorLoop& loop = mapping.loop;
  const ir::Dim vectors = count_vectors(analysis, schedule, mapping.loop_dims);
  const bool wide = needs_wide(analysis, vectors),
             has_tail = schedule.as<PointwiseParameters>().tail;
  const char* type = count_type(wide);
  const int per_block = schedule.threads() * schedule.unroll;
  mapping.prologue.push_back(fmt::format("const {} {} = {} * {} + threadIdx.x;", type,
                                         loop.unrolled() ? "first" : "flat",
                                         block_text(analysis, wide), per_block));
  if (loop.unrolled())
    loop.lines.push_back(fmt::format("const {} flat = first + k * {};", type, schedule.threads()));
  // With a tail there may be one block more than vectors need.
  if (has_tail || !(vectors.is_constant() && vectors.value() % per_block == 0))
    loop.predicate = fmt::format("flat < {}({})", type, args.dim(vectors));
  split_index(analysis, args, mapping.loop_dims, "flat", wide, mapping, loop.lines);
  mapping.leader = loop.unrolled() ? "first == 0" : "flat == 0";
  mapping.blocks = ir::ceil_div(vectors, per_block, analysis.exprs().ranges());
  if (!has_tail || loop.unrolled()) return mapping;
  // The tail of the only dimension: one element for each of the first threads.
  const ir::Dim length = analysis.size_of_dims(mapping.loop_dims);
  const std::string whole = args.dim(vectors), end = args.dim(length);
  add_tail(analysis, args,
           fmt::format("if (flat < {0}({1}) - {0}({2}) * {3})", type, end, whole, schedule.vector),
           {fmt::format("const {0} e = {0}({1}) * {2} + flat;", type, whole, schedule.vector)},
           0 /* loaded ahead */, wide, mapping);
  mapping.blocks = ir::ceil_div(length, per_block * schedule.vector,  // also if shorter than a
                                                                      // vector
                                analysis.exprs().ranges());
  return mapping;
}

}  // namespace sinter::codegen
