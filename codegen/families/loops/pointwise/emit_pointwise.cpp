// Pointwise regions: threads along all elements, `unroll` vectors each, a block's width apart so
// that neighbouring threads touch neighbouring vectors.
#include <fmt/format.h>

#include "codegen/families/loops/pointwise/pointwise_schedule.h"

namespace sinter::codegen {

namespace {

/// The elements of the only dimension that no whole vector has: one for each of the first threads.
void add_tail(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args, bool wide,
              const ir::Dim& vectors, Layout& layout) {
  const auto tail = make_tail(layout, schedule, 0);  // nothing is loaded ahead
  const char* type = wide ? "u64" : "u32";
  const ir::Dim length = analysis.size_of_dims(layout.loop_dims);
  tail->loop_lines = {fmt::format("const {0} e = {0}({1}) * {2} + flat;", type, args.dim(vectors),
                                  schedule.vector)};
  tail->loop_header = fmt::format("if (flat < {0}({1}) - {0}({2}) * {3})", type, args.dim(length),
                                  args.dim(vectors), schedule.vector);
  split_index(analysis, args, layout.loop_dims, "e", wide, *tail, tail->loop_lines);
  layout.tail = tail;
}

}  // namespace

Layout layout_pointwise(const ProgramAnalysis& analysis, const Schedule& schedule,
                        Arguments& args) {
  Layout layout;
  layout.schedule = &schedule;
  layout.loop_dims = analysis.outer_dims() | analysis.inner_dims();
  layout.indices.resize(analysis.rank());
  const ir::Dim vectors = count_vectors(analysis, schedule, layout.loop_dims);
  const bool wide = needs_wide(analysis, vectors);
  const char* type = wide ? "u64" : "u32";
  const int per_block = schedule.threads() * schedule.unroll;
  const std::string block = block_text(analysis, wide);
  if (layout.unrolled()) {
    layout.prologue.push_back(
        fmt::format("const {} first = {} * {} + threadIdx.x;", type, block, per_block));
    layout.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
    layout.loop_lines.push_back(
        fmt::format("const {} flat = first + k * {};", type, schedule.threads()));
  } else {
    layout.prologue.push_back(
        fmt::format("const {} flat = {} * {} + threadIdx.x;", type, block, per_block));
  }
  // With a tail there may be a block more than vectors need.
  if (schedule.tail || !(vectors.is_constant() && vectors.value() % per_block == 0))
    layout.predicate = fmt::format("flat < {}({})", type, args.dim(vectors));
  split_index(analysis, args, layout.loop_dims, "flat", wide, layout, layout.loop_lines);
  layout.leader = layout.unrolled() ? "first == 0" : "flat == 0";
  layout.blocks = ir::ceil_div(vectors, per_block, analysis.exprs().ranges());
  if (schedule.tail && !layout.unrolled()) {
    add_tail(analysis, schedule, args, wide, vectors, layout);
    layout.blocks =  // less than a vector takes one as well
        ir::ceil_div(analysis.size_of_dims(layout.loop_dims), per_block * schedule.vector,
                     analysis.exprs().ranges());
  }
  layout.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  return layout;
}

}  // namespace sinter::codegen
