// SPDX-License-Identifier: Apache-2.0
// Regions of one LinearAttention.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "codegen/families/linear_attention/emit_linear_attention.h"

namespace sinter::codegen {
namespace {

/// Tokens up to which one launch, token by token, is faster than chunks.
constexpr std::int64_t kFewTokens = 16;

class StateProgram final : public KernelProgram {
 public:
  using Emit = std::function<EmittedKernel(const KernelRequest&, ExprTable&)>;
  StateProgram(std::string signature, std::vector<std::uint32_t> buffers, Emit emit)
      : signature_(std::move(signature)), buffers_(std::move(buffers)), emit_(std::move(emit)) {}

  std::string signature(const ExprTable&) const override { return signature_; }
  std::vector<std::uint32_t> buffers() const override { return buffers_; }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_(request, exprs);
  }

 private:
  std::string signature_;
  std::vector<std::uint32_t> buffers_;
  Emit emit_;
};

class LinearAttentionFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "linear_attention"; }

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (region.kind() != "linear_attention") return "it is no LinearAttention";
    return target.generates_kernels ? "" : "this target has no kernels for it";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const LinearAttentionProblem problem = read_linear_attention(region);
    std::vector<StepTactics> steps;
    StepTactics& result = steps.emplace_back(StepTactics{step_of(region), {}});
    set_cost(result.step, cost(problem, region, plan), plan.exprs);
    const bool has_chunks = std::ranges::all_of(plan.devices, [&](const DeviceModel* device) {
      return problem.no_chunks(*device).empty();
    });
    const Ranges& ranges = plan.exprs.ranges();
    const Dim& length = problem.layer.length;
    const auto most = ir::upper_bound(length, ranges);
    const bool may_be_few = ir::lower_bound(length, ranges).value_or(0) <= kFewTokens;
    const bool may_be_many = has_chunks && (!most || *most > kFewTokens);
    if (may_be_few || !may_be_many) {
      Tactic& few = result.tactics.emplace_back(tokens(region, problem));
      if (may_be_many) few.conditions.emplace_back(plan.exprs.intern(length), 1, kFewTokens);
    }
    if (may_be_many) result.tactics.push_back(chunks(region, problem, plan, result.step));
    if (result.tactics.size() > 1) result.tactics[0].name = "tokens";
    return steps;
  }

  std::vector<std::string_view> schedules() const override { return {"linear_attention"}; }

 private:
  static Tactic tokens(const Region& region, const LinearAttentionProblem& problem) {
    return only(region.name, std::make_shared<StateProgram>(
                                 problem.to_string() + " tokens", problem.buffers(),
                                 [problem](const KernelRequest& request, ExprTable& exprs) {
                                   return emit_token_states(problem, request, exprs);
                                 }));
  }

  Tactic chunks(const Region& region, const LinearAttentionProblem& problem, PlanContext& plan,
                StepT& step) const {
    const std::uint32_t records = plan.buffers.scratch(
        {DType::kUInt8, {problem.chunks(plan.exprs) * Dim(problem.record_bytes())}});
    step.writes.push_back(records);
    std::vector<std::uint32_t> buffers = problem.buffers();
    buffers.push_back(records);
    const std::string schedule = asked_schedule(*this, plan.options);
    Tactic tactic;
    tactic.name = "chunks";
    tactic.parts.resize(2);
    tactic.parts[0].kernel = region.name + "_operands";
    tactic.parts[0].program = std::make_shared<StateProgram>(
        problem.to_string() + " operands", buffers,
        [problem, records](const KernelRequest& request, ExprTable& exprs) {
          return emit_chunk_operands(problem, records, request, exprs);
        });
    tactic.parts[1].kernel = region.name + "_states";
    tactic.parts[1].program = std::make_shared<StateProgram>(
        problem.to_string() + " states " + schedule, buffers,
        [problem, records, schedule](const KernelRequest& request, ExprTable& exprs) {
          return emit_chunk_states(problem, records, schedule, request, exprs);
        });
    return tactic;
  }

  /// Of the recurrence: two operations for each element that is decayed, erased, added and read.
  static StepCost cost(const LinearAttentionProblem& problem, const Region& region,
                       const PlanContext& plan) {
    const auto bytes = [&](const std::vector<std::uint32_t>& buffers) {
      Dim all = 0;
      for (const std::uint32_t buffer : buffers) all += plan.buffers.size(buffer).bytes;
      return all;
    };
    const ir::LinearAttention& layer = problem.layer;
    const std::int64_t products =
        1 + (layer.rule == ir::UpdateRule::kLinear ? 0 : 1) + layer.out_heads() / layer.heads();
    return {bytes(region.inputs), bytes(region.outputs),
            layer.batch * layer.length *
                Dim(2 * products * layer.heads() * problem.key_size() * problem.value_size()),
            gemm_arithmetic(problem.query.type, plan::fb::MathMode::Default)};
  }
};

}  // namespace

const KernelFamily& linear_attention_family() {
  static const LinearAttentionFamily family;
  return family;
}

}  // namespace sinter::codegen
