// SPDX-License-Identifier: Apache-2.0
// Regions of one LinearAttention.
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/linear_attention/emit_linear_attention.h"
#include "codegen/families/linear_attention/linear_attention_call.h"
#include "codegen/families/operator_family.h"

namespace sinter::codegen {
namespace {

/// Tokens up to which one launch, token by token, is faster than chunks.
constexpr std::int64_t kFewTokens = 16;

class LinearAttentionFamily final : public OperatorFamily {
 public:
  LinearAttentionFamily() : OperatorFamily("linear_attention", "LinearAttention") {}

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    if (!plan.generates_kernels()) return OperatorFamily::lower(region, plan);
    const OperatorRegion one = read(region);
    const LinearAttentionProblem problem = read_linear_attention(one);
    std::vector<StepTactics> steps;
    StepTactics& result = steps.emplace_back(StepTactics{step_of(region), {}});
    set_cost(result.step, cost(one, plan), plan.exprs);
    const Ranges& ranges = plan.exprs.ranges();
    const Dim& length = problem.layer.length;
    const auto most = ir::upper_bound(length, ranges);
    const bool may_be_few = ir::lower_bound(length, ranges).value_or(0) <= kFewTokens;
    const bool may_be_many = (!most || *most > kFewTokens) &&
                             std::ranges::all_of(plan.devices, [&](const DeviceModel* device) {
                               return problem.no_chunks(*device).empty();
                             });
    if (may_be_few || !may_be_many) {
      Tactic& few = result.tactics.emplace_back(tokens(one, problem));
      if (may_be_many) {
        few.name = "tokens";
        few.conditions.emplace_back(plan.exprs.intern(length), 1, kFewTokens);
      }
    }
    if (may_be_many) result.tactics.push_back(chunks(one, problem, plan, result.step));
    return steps;
  }

  std::vector<std::string_view> schedules() const override { return {"linear_attention"}; }

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext& plan) const override {
    StepCost cost = linear_attention_cost(region);
    if (plan.generates_kernels())
      cost.arithmetic = gemm_arithmetic(region.type(0).dtype, plan::fb::MathMode::Default);
    return cost;
  }
  Tactic kernels(const OperatorRegion&, PlanContext&, StepT&) const override {
    throw Error(ErrorCode::kInternal, "a LinearAttention has several tactics");
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return linear_attention_call(region, exprs);
  }

  static Tactic tokens(const OperatorRegion& region, const LinearAttentionProblem& problem) {
    return emitted(region, problem.to_string() + " tokens", problem.buffers(),
                   [problem](const KernelRequest& request, ExprTable& exprs) {
                     return emit_token_states(problem, request, exprs);
                   });
  }

  Tactic chunks(const OperatorRegion& region, const LinearAttentionProblem& problem,
                PlanContext& plan, StepT& step) const {
    const std::uint32_t records = plan.buffers.scratch(
        {DType::kUInt8, {problem.chunks(plan.exprs) * Dim(problem.record_bytes())}});
    step.writes.push_back(records);
    std::vector<std::uint32_t> buffers = problem.buffers();
    buffers.push_back(records);
    const std::string schedule = asked_schedule(*this, plan.options);
    Tactic tactic = emitted(region, problem.to_string() + " operands", buffers,
                            [problem, records](const KernelRequest& request, ExprTable& exprs) {
                              return emit_chunk_operands(problem, records, request, exprs);
                            });
    Tactic states =
        emitted(region, fmt::format("{} states {}", problem.to_string(), schedule), buffers,
                [problem, records, schedule](const KernelRequest& request, ExprTable& exprs) {
                  return emit_chunk_states(problem, records, schedule, request, exprs);
                });
    tactic.name = "chunks";
    tactic.parts[0].kernel += "_operands";
    tactic.parts.push_back(std::move(states.parts[0]));
    tactic.parts[1].kernel += "_states";
    return tactic;
  }
};

}  // namespace

const KernelFamily& linear_attention_family() {
  static const LinearAttentionFamily family;
  return family;
}

}  // namespace sinter::codegen
