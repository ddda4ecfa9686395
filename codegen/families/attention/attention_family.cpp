// SPDX-License-Identifier: Apache-2.0
// Attention, with a prologue for its queries and the new rows of its caches.
#include <fmt/format.h>

#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/attention/attention_step.h"
#include "codegen/families/attention/emit_attention.h"
#include "codegen/families/attention/schedule/attention_fit.h"
#include "codegen/families/family.h"
#include "codegen/families/loops/loops_kernel.h"

namespace sinter::codegen {
namespace {

class AttentionKernel final : public KernelProgram {
 public:
  AttentionKernel(AttentionProgram program, std::string schedule)
      : program_(std::move(program)), schedule_(std::move(schedule)) {}

  std::string signature(const ExprTable& exprs) const override {
    return print_attention(program_, exprs);
  }
  std::vector<std::uint32_t> buffers() const override { return program_.buffers; }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_attention(program_, request.name, request.origins, exprs,
                          request.programmatic_launch, schedule_, request.requested, request);
  }
  bool has_tasks() const override { return !program_.is_float32() && !program_.eight_bit; }

 private:
  AttentionProgram program_;
  std::string schedule_;
};

class AttentionFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "attention"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "attention" ? "" : "it is no attention";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    std::vector<StepTactics> steps;
    steps.push_back({step_of(region), {}});
    if (plan.generates_kernels())
      kernels(region, plan, steps.back());
    else
      interpreted(region, plan, steps.back());
    return steps;
  }

  std::vector<std::string_view> schedules() const override { return {"attention"}; }

 private:
  static void interpreted(const Region& region, PlanContext& plan, StepTactics& result) {
    const AttentionProgram program =
        lower_attention(*region.node.body, region.inputs, region.outputs, plan.exprs);
    set_cost(result.step, cost_of(program, plan.exprs, plan.sizes()), plan.exprs);
    result.tactics.push_back(only(cpu_attention_step(program, plan.exprs)));
  }

  /// One kernel, or kernels that compute queries and new cache rows, followed by it.
  void kernels(const Region& region, PlanContext& plan, StepTactics& result) const {
    AttentionStep attention = lower_attention_step(region.graph, region.node, region.inputs,
                                                   region.outputs, plan.buffers, plan.exprs);
    // The limit of K up to which fp8 GEMMs are not promoted.
    constexpr std::int64_t kMostUnpromoted = 1024;
    const auto most_keys = ir::upper_bound(attention.program.keys, plan.exprs.ranges());
    attention.program.promoted = attention.program.eight_bit && !plan.options.fast_accumulation &&
                                 (!most_keys || *most_keys > kMostUnpromoted);
    set_cost(result.step, attention.work, plan.exprs);
    Tactic tactic;
    if (!attention.before.empty()) {
      result.step.writes.insert(result.step.writes.end(), attention.scratch.begin(),
                                attention.scratch.end());
      tactic.name = "attention after its prologue (" + attention.refusal + ")";
      for (LoopProgramT& program : attention.before)
        tactic.parts.push_back({fmt::format("{}_prologue{}", region.name, tactic.parts.size()),
                                loops_kernel(std::move(program), plan.options),
                                {}});
    }
    const std::string schedule = asked_schedule(*this, plan.options);
    const auto add = [&](const std::string& name, PagedSequences taken) {
      AttentionProgram program = attention.program;
      program.taken = taken;
      tactic.parts.push_back(
          {name, std::make_shared<AttentionKernel>(std::move(program), schedule), {}});
    };
    if (schedule.empty() && few_rows_of_sequence(attention.program, plan.exprs.ranges()) > 0) {
      if (tactic.name.empty()) tactic.name = "attention of short sequences, and of long ones";
      add(region.name, PagedSequences::kShort);
      add(region.name + "_long", PagedSequences::kLong);
    } else {
      add(region.name, PagedSequences::kAll);
    }
    result.tactics.push_back(std::move(tactic));
  }
};

}  // namespace

const KernelFamily& attention_family() {
  static const AttentionFamily family;
  return family;
}

}  // namespace sinter::codegen
