// SPDX-License-Identifier: Apache-2.0
// Recurrent layers as one persistent kernel.
#include "codegen/families/family.h"
#include "codegen/families/recurrent/recurrent_lowering.h"

namespace sinter::codegen {
namespace {

class RecurrentKernel final : public KernelProgram {
 public:
  RecurrentKernel(RecurrentProgram program, std::string schedule)
      : program_(std::move(program)), schedule_(std::move(schedule)) {}

  std::string signature(const ExprTable&) const override {
    return print_recurrent(program_) + " " + schedule_;
  }
  std::vector<std::uint32_t> buffers() const override {
    std::vector<std::uint32_t> all;
    for (const auto& buffer : program_.buffers)
      if (buffer) all.push_back(*buffer);
    return all;
  }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_recurrent(program_, request, schedule_, exprs);
  }

 private:
  RecurrentProgram program_;
  std::string schedule_;
};

class RecurrentFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "recurrent"; }

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (region.kind() != "recurrent") return "it is no recurrent layer";
    return target.recurrent_units.empty() ? "the target keeps no weights on chip" : "";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    RecurrentProgram program = lower_recurrent(*region.node.body, region.inputs, region.outputs);
    std::vector<StepTactics> steps;
    steps.push_back({step_of(region), {}});
    set_cost(steps[0].step, cost_of(program, plan.sizes()), plan.exprs);
    steps[0].tactics.push_back(
        only(region.name, std::make_shared<RecurrentKernel>(std::move(program),
                                                            asked_schedule(*this, plan.options))));
    return steps;
  }

  std::vector<std::string_view> schedules() const override { return {"recurrent"}; }
};

}  // namespace

const KernelFamily& recurrent_family() {
  static const RecurrentFamily family;
  return family;
}

}  // namespace sinter::codegen
