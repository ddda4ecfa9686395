// SPDX-License-Identifier: Apache-2.0
// Regions of one ArgSort.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/family.h"
#include "codegen/families/sort/emit_sort.h"

namespace sinter::codegen {
namespace {

class SortKernel final : public KernelProgram {
 public:
  SortKernel(SortProblem problem, std::vector<std::uint32_t> scratch)
      : problem_(std::move(problem)), scratch_(std::move(scratch)) {}

  std::string signature(const ExprTable&) const override {
    std::string text = fmt::format("sort {}", problem_.descending);
    for (const Dim& dim : {problem_.outer, problem_.length, problem_.inner, problem_.count})
      text += " " + dim.to_string();
    return text;
  }
  std::vector<std::uint32_t> buffers() const override {
    std::vector<std::uint32_t> all = {problem_.input, problem_.output};
    all.insert(all.end(), scratch_.begin(), scratch_.end());
    return all;
  }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_sort(problem_, scratch_, request.name, request.origins, exprs);
  }

 private:
  SortProblem problem_;
  std::vector<std::uint32_t> scratch_;
};

class SortFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "sort"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "sort" ? "" : "it is no sort";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const SortProblem problem = lower_sort(*region.node.body, region.inputs, region.outputs);
    StepTactics result{step_of(region), {}};
    set_cost(result.step, cost_of(problem, plan.exprs), plan.exprs);
    result.tactics.push_back(plan.generates_kernels()
                                 ? kernels(region.name, problem, plan, result.step)
                                 : only(sort_step(problem, plan.exprs)));
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }

 private:
  /// One launch if a block can sort every row, otherwise merges follow.
  static Tactic kernels(const std::string& name, const SortProblem& problem, PlanContext& plan,
                        StepT& step) {
    const SortSchedule schedule = choose_sort(problem, plan.exprs);
    std::vector<std::uint32_t> scratch;
    if (schedule.passes > 0) {
      const TensorType bytes{DType::kUInt8, {sort_scratch_bytes(problem, schedule, plan.exprs)}};
      for (int b = 0; b < std::min(schedule.passes, 2); ++b)
        scratch.push_back(plan.buffers.scratch(bytes));
      step.writes.insert(step.writes.end(), scratch.begin(), scratch.end());
    }
    Tactic tactic = only(name, std::make_shared<SortKernel>(problem, scratch));
    if (schedule.passes > 0) {
      tactic.name = "sort";
      tactic.parts.resize(static_cast<std::size_t>(schedule.passes) + 1);
    }
    return tactic;
  }
};

}  // namespace

const KernelFamily& sort_family() {
  static const SortFamily family;
  return family;
}

}  // namespace sinter::codegen
