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
    const bool may_be_chunks =
        std::ranges::all_of(
            plan.devices,
            [&](const DeviceModel* device) { return problem.no_chunks(*device).empty(); }) &&
        (!problem.layer.is_ragged() ||
         ir::upper_bound(problem.layer.length, ranges).value_or(kMostRaggedTokens + 1) <=
             kMostRaggedTokens);
    // Tokens of a sequence; of a ragged batch an upper bound, if no sequence is empty.
    const Dim length = problem.layer.is_ragged()
                           ? problem.layer.length - problem.layer.sequences + Dim(1)
                           : problem.layer.length;
    const std::int64_t few = problem.layer.is_ragged() ? kLeastRaggedChunk - 1 : kFewTokens;
    const auto least = ir::lower_bound(length, ranges), most = ir::upper_bound(length, ranges);
    const bool may_be_few = !least || *least <= few;
    const bool may_be_many = may_be_chunks && (!most || *most > few);
    if (may_be_few || !may_be_many) {
      Tactic& tactic = result.tactics.emplace_back(tokens(one, problem));
      if (may_be_many) {
        tactic.name = "tokens";
        tactic.conditions.emplace_back(plan.exprs.intern(length), 1, few);
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

  /// A tactic's kernels, one behind the other.
  struct Programs {
    const OperatorRegion& region;
    std::string name;
    std::vector<std::uint32_t> buffers;
    Tactic tactic;

    template <class Emit>
    void add(const std::string& part, Emit emit, const std::string& more = {}) {
      Tactic one =
          emitted(region, fmt::format("{} {}{}", name, part, more), buffers, std::move(emit));
      one.parts[0].kernel += "_" + part;
      tactic.parts.push_back(std::move(one.parts[0]));
    }
  };
  static std::uint32_t scratch(DType type, const Dim& size, PlanContext& plan, StepT& step) {
    const std::uint32_t buffer = plan.buffers.scratch({type, {size}});
    step.writes.push_back(buffer);
    return buffer;
  }
  Tactic chunks(const OperatorRegion& region, const LinearAttentionProblem& problem,
                PlanContext& plan, StepT& step) const {
    const bool is_ragged = problem.layer.is_ragged();
    ChunkBuffers own{.records = scratch(DType::kUInt8,
                                        problem.chunks(plan.exprs) * Dim(problem.record_bytes()),
                                        plan, step)};
    // The tokens' kernel leaves out what has chunks: another one than that of the tactic above.
    Programs programs{
        region, problem.to_string() + (is_ragged ? " chunks" : ""), problem.buffers(), {}};
    programs.buffers.push_back(own.records);
    if (is_ragged) {
      own.table = scratch(DType::kInt32, problem.table_words(plan.exprs), plan, step);
      programs.buffers.push_back(*own.table);
      programs.add("table", [problem, own](const KernelRequest& request, ExprTable& exprs) {
        return emit_chunk_table(problem, own, request, exprs);
      });
    }
    programs.add("operands", [problem, own](const KernelRequest& request, ExprTable& exprs) {
      return emit_chunk_operands(problem, own, request, exprs);
    });
    const std::string schedule = asked_schedule(*this, plan.options);
    programs.add(
        "states",
        [problem, own, schedule](const KernelRequest& request, ExprTable& exprs) {
          return emit_chunk_states(problem, own, schedule, request, exprs);
        },
        " " + schedule);
    if (is_ragged)
      programs.add("tokens", [problem, own](const KernelRequest& request, ExprTable& exprs) {
        return emit_token_states(problem, request, exprs, own.table);
      });
    programs.tactic.name = "chunks";
    return std::move(programs.tactic);
  }
};

}  // namespace

const KernelFamily& linear_attention_family() {
  static const LinearAttentionFamily family;
  return family;
}

}  // namespace sinter::codegen
