// SPDX-License-Identifier: Apache-2.0
// Many small regions in one kernel launch.
#include <algorithm>
#include <set>

#include "codegen/families/family.h"
#include "codegen/families/horizontal/emit_horizontal.h"

namespace sinter::codegen {
namespace {

class HorizontalKernel final : public KernelProgram {
 public:
  HorizontalKernel(HorizontalProgram program, std::vector<std::uint32_t> buffers)
      : program_(std::move(program)), buffers_(std::move(buffers)) {}

  std::string signature(const ExprTable&) const override { return print_horizontal(program_); }
  std::vector<std::uint32_t> buffers() const override { return buffers_; }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_horizontal(program_, request, exprs);
  }

 private:
  HorizontalProgram program_;
  std::vector<std::uint32_t> buffers_;
};

/// All buffers of the parts, each once.
std::vector<std::uint32_t> buffers_of(const HorizontalProgram& program) {
  std::vector<std::uint32_t> all;
  for (const HorizontalPart& part : program.parts)
    for (const std::uint32_t buffer : part.buffers)
      if (std::find(all.begin(), all.end(), buffer) == all.end()) all.push_back(buffer);
  return all;
}

/// Traffic of all regions together. For a tensor updated in place, only the scattered elements
/// count.
StepCost cost_of(const HorizontalProgram& program, const Region& region,
                 const plan::fb::StepT& step, const PlanBuffers& buffers) {
  StepCost cost{0, 0, 0};
  std::set<std::uint32_t> changed;
  for (const ScatterRegion& scatter : scatter_regions(region.node)) {
    changed.insert({region.inputs[scatter.data], region.outputs[scatter.result]});
    cost.bytes_written =
        cost.bytes_written + ir::element_count(scatter.updates.shape) *
                                 ir::Dim(static_cast<std::int64_t>(size_of(scatter.updates.dtype)));
  }
  for (const std::uint32_t buffer : step.reads)
    if (!changed.contains(buffer)) cost.bytes_read = cost.bytes_read + buffers.size(buffer).bytes;
  for (const std::uint32_t buffer : step.writes)
    if (!changed.contains(buffer))
      cost.bytes_written = cost.bytes_written + buffers.size(buffer).bytes;
  cost.flops = program.flops();
  return cost;
}

class HorizontalFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "horizontal"; }

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (region.kind() != "horizontal") return "it is one region";
    return target.horizontal ? "" : "this target runs regions one by one";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    HorizontalProgram program = lower_horizontal(*region.node.body, region.inputs, region.outputs);
    StepTactics result{step_of(region), {}};
    set_cost(result.step, cost_of(program, region, result.step, plan.buffers), plan.exprs);
    std::vector<std::uint32_t> buffers = buffers_of(program);
    std::erase_if(result.step.reads, [&](std::uint32_t buffer) {
      return std::find(buffers.begin(), buffers.end(), buffer) == buffers.end();
    });
    result.tactics.push_back(only(
        region.name, std::make_shared<HorizontalKernel>(std::move(program), std::move(buffers))));
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }
};

}  // namespace

const KernelFamily& horizontal_family() {
  static const HorizontalFamily family;
  return family;
}

}  // namespace sinter::codegen
