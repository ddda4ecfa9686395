// SPDX-License-Identifier: Apache-2.0
// Regions of one ArgSort.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/sort/emit_sort.h"

namespace sinter::codegen {
namespace {

SortProblem problem_of(const OperatorRegion& region) {
  const ir::Attrs& attrs = region.node.attrs;
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  const Shape& shape = region.shape(0);
  SortProblem problem;
  problem.input = region.buffer(0);
  problem.output = region.region.outputs[0];
  problem.dtype = region.type(0).dtype;
  problem.outer = problem.inner = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Dim& count = d < axis ? problem.outer : problem.inner;
    if (d != axis) count *= shape[d];
  }
  problem.length = shape[axis];
  problem.count = attrs.get_dims("count").at(0);
  problem.descending = attrs.get_int("descending") != 0;
  return problem;
}

class SortFamily final : public OperatorFamily {
 public:
  SortFamily() : OperatorFamily("sort", "ArgSort") {}

 private:
  /// One pass over the elements, and `length * log2(length)` comparisons, with bounds below 2^32.
  StepCost cost(const OperatorRegion& region, const PlanContext& plan) const override {
    const SortProblem p = problem_of(region);
    const Dim rows = p.outer * p.inner, elements = rows * p.length;
    const auto most = ir::upper_bound(p.length, plan.exprs.ranges());
    int levels = most ? 1 : 32;
    if (most && *most > 1)
      levels = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(*most - 1)));
    return {elements * Dim(static_cast<std::int64_t>(size_of(p.dtype))), rows * p.count * Dim(8),
            elements * Dim(levels)};
  }

  /// One launch if a block can sort every row.
  Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const override {
    const SortProblem p = problem_of(region);
    const SortSchedule schedule = choose_sort(p, plan.exprs);
    std::vector<std::uint32_t> scratch;
    for (const Dim& bytes : sort_scratch_bytes(p, schedule, plan.exprs))
      scratch.push_back(plan.buffers.scratch({DType::kUInt8, {bytes}}));
    step.writes.insert(step.writes.end(), scratch.begin(), scratch.end());
    std::string signature = fmt::format("sort {}", p.descending);
    for (const Dim& dim : {p.outer, p.length, p.inner, p.count}) signature += " " + dim.to_string();
    std::vector<std::uint32_t> buffers = {p.input, p.output};
    buffers.insert(buffers.end(), scratch.begin(), scratch.end());
    Tactic tactic = emitted(region, std::move(signature), std::move(buffers),
                            [p, scratch](const KernelRequest& request, ExprTable& exprs) {
                              return emit_sort(p, scratch, request.name, request.origins, exprs);
                            });
    if (schedule.kernels() > 1) {
      tactic.name = "sort";
      tactic.parts.resize(schedule.kernels());
    }
    return tactic;
  }

  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    const SortProblem p = problem_of(region);
    return operator_step("sort", exprs, {{p.input, {p.outer, p.length, p.inner}}},
                         {{p.output, {p.outer, p.count, p.inner}}},
                         {{"descending", std::int64_t{p.descending}}});
  }
};

}  // namespace

const KernelFamily& sort_family() {
  static const SortFamily family;
  return family;
}

}  // namespace sinter::codegen
