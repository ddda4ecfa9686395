// Pointwise regions: threads along all elements, `unroll` vectors each, a block's width apart so
// that neighbouring threads touch neighbouring vectors.
#include <fmt/format.h>

#include "codegen/families/loops/pointwise/pointwise_schedule.h"

namespace sinter::codegen {

namespace {

/// The elements of the only dimension that no whole vector has: one for each of the first threads.
void add_tail(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args, bool wide,
              const ir::Dim& vectors, ThreadMapping& mapping) {
  const auto tail = make_tail(mapping, schedule, 0);  // nothing is loaded ahead
  const char* type = wide ? "u64" : "u32";
  const ir::Dim length = analysis.size_of_dims(mapping.loop_dims);
  tail->loop_lines = {fmt::format("const {0} e = {0}({1}) * {2} + flat;", type, args.dim(vectors),
                                  schedule.vector)};
  tail->loop_header = fmt::format("if (flat < {0}({1}) - {0}({2}) * {3})", type, args.dim(length),
                                  args.dim(vectors), schedule.vector);
  split_index(analysis, args, mapping.loop_dims, "e", wide, *tail, tail->loop_lines);
  mapping.tail = tail;
}

}  // namespace

ThreadMapping map_pointwise(const ProgramAnalysis& analysis, const Schedule& schedule,
                            Arguments& args) {
  ThreadMapping mapping;
  mapping.schedule = &schedule;
  mapping.loop_dims = analysis.outer_dims() | analysis.inner_dims();
  mapping.indices.resize(analysis.rank());
  const ir::Dim vectors = count_vectors(analysis, schedule, mapping.loop_dims);
  const bool wide = needs_wide(analysis, vectors);
  const char* type = wide ? "u64" : "u32";
  const int per_block = schedule.threads() * schedule.unroll;
  const std::string block = block_text(analysis, wide);
  if (mapping.unrolled()) {
    mapping.prologue.push_back(
        fmt::format("const {} first = {} * {} + threadIdx.x;", type, block, per_block));
    mapping.loop_header = fmt::format("for (int k = 0; k < {}; ++k)", schedule.unroll);
    mapping.loop_lines.push_back(
        fmt::format("const {} flat = first + k * {};", type, schedule.threads()));
  } else {
    mapping.prologue.push_back(
        fmt::format("const {} flat = {} * {} + threadIdx.x;", type, block, per_block));
  }
  // With a tail there may be a block more than vectors need.
  if (schedule.tail || !(vectors.is_constant() && vectors.value() % per_block == 0))
    mapping.predicate = fmt::format("flat < {}({})", type, args.dim(vectors));
  split_index(analysis, args, mapping.loop_dims, "flat", wide, mapping, mapping.loop_lines);
  mapping.leader = mapping.unrolled() ? "first == 0" : "flat == 0";
  mapping.blocks = ir::ceil_div(vectors, per_block, analysis.exprs().ranges());
  if (schedule.tail && !mapping.unrolled()) {
    add_tail(analysis, schedule, args, wide, vectors, mapping);
    mapping.blocks =  // less than a vector takes one as well
        ir::ceil_div(analysis.size_of_dims(mapping.loop_dims), per_block * schedule.vector,
                     analysis.exprs().ranges());
  }
  mapping.block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
  return mapping;
}

}  // namespace sinter::codegen
