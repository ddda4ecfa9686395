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
/// Tokens from which on states are changed beside the making of later records. It costs a launch
/// that clears flags; with fewer tokens there is little to do beside.
constexpr std::int64_t kManyTokens = 1024;

/// Whether a kernel can start while all blocks of the one in front of it run.
bool starts_early(const PlanContext& plan) {
  return plan.options.programmatic_launch &&
         std::ranges::all_of(plan.devices, [](const DeviceModel* device) {
           return device->has_clusters();
         });
}

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
    if (!may_be_many) return steps;
    const bool may_be_beside = starts_early(plan) && (!most || *most >= kManyTokens);
    const bool is_beside =
        may_be_beside && ir::lower_bound(length, ranges).value_or(0) >= kManyTokens;
    if (!is_beside) {
      Tactic& plain = result.tactics.emplace_back(chunks(one, problem, false, plan, result.step));
      if (may_be_beside)
        plain.conditions.emplace_back(plan.exprs.intern(length), 1, kManyTokens - 1);
    }
    if (may_be_beside)
      result.tactics.push_back(chunks(one, problem, true, plan, result.step));
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

  Tactic chunks(const OperatorRegion& region, const LinearAttentionProblem& problem, bool is_beside,
                PlanContext& plan, StepT& step) const {
    const auto scratch = [&](DType type, const Dim& size) {
      const std::uint32_t buffer = plan.buffers.scratch({type, {size}});
      step.writes.push_back(buffer);
      return buffer;
    };
    ChunkBuffers own{.records = scratch(DType::kUInt8, problem.chunks(plan.exprs) *
                                                           Dim(problem.record_bytes()))};
    std::vector<std::uint32_t> buffers = problem.buffers();
    buffers.push_back(own.records);
    if (is_beside) {
      own.flags = scratch(DType::kUInt64, problem.flag_words(plan.exprs));
      buffers.push_back(*own.flags);
    }
    const std::string schedule = asked_schedule(*this, plan.options),
                      name = problem.to_string() + (is_beside ? " beside" : "");
    Tactic tactic = emitted(region, name + " operands", buffers,
                            [problem, own](const KernelRequest& request, ExprTable& exprs) {
                              return emit_chunk_operands(problem, own, request, exprs);
                            });
    Tactic states =
        emitted(region, fmt::format("{} states {}", name, schedule), buffers,
                [problem, own, schedule](const KernelRequest& request, ExprTable& exprs) {
                  return emit_chunk_states(problem, own, schedule, request, exprs);
                });
    tactic.name = is_beside ? "chunks beside" : "chunks";
    tactic.parts[0].kernel += is_beside ? "_beside_operands" : "_operands";
    tactic.parts.push_back(std::move(states.parts[0]));
    tactic.parts[1].kernel += is_beside ? "_beside_states" : "_states";
    return tactic;
  }
};

}  // namespace

const KernelFamily& linear_attention_family() {
  static const LinearAttentionFamily family;
  return family;
}

}  // namespace sinter::codegen
