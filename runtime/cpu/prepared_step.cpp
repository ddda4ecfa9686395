// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/prepared_step.h"

#include "runtime/format_error.h"
#include "runtime/plan/extents.h"

namespace sinter::runtime::cpu {

using plan::fb::Work;

std::string kind_of(const PreparedStep& step) {
  if (std::holds_alternative<TileProgram>(step)) return "loops";
  if (const auto* call = std::get_if<OperatorStep>(&step)) return call->name();
  if (std::holds_alternative<HostStep>(step)) return "host";
  if (std::holds_alternative<MatmulQuant>(step)) return "quantized";
  if (std::holds_alternative<MatmulPanels>(step)) return "panels";
  if (std::holds_alternative<CpuAttention>(step)) return "attention";
  if (std::holds_alternative<While>(step)) return "loop";
  if (std::holds_alternative<If>(step)) return "branch";
  if (std::holds_alternative<Extent>(step)) return "size";
  return std::holds_alternative<Copy>(step) ? "copy" : "oneDNN";
}

std::size_t workspace_bytes(const PreparedStep& step) {
  return std::visit(
      [](const auto& work) -> std::size_t {
        if constexpr (requires { work.workspace_bytes(); })
          return work.workspace_bytes();
        else
          return 0;
      },
      step);
}

std::uint64_t own_bytes(const PreparedStep& step) {
  return std::visit(
      [](const auto& work) -> std::uint64_t {
        if constexpr (requires { work.own_bytes(); })
          return work.own_bytes();
        else
          return 0;
      },
      step);
}

std::vector<std::size_t> joined_steps(const plan::fb::PlanT& plan,
                                      std::span<const PreparedStep> steps) {
  std::vector<bool> begins(steps.size() + 1, false);  // of bodies, branches, and what follows them
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (const auto* loop = std::get_if<While>(&steps[i])) begins[i + 1 + loop->steps] = true;
    if (const auto* branch = std::get_if<If>(&steps[i]))
      begins[i + 1 + branch->then_steps] = begins[i + 1 + branch->then_steps + branch->else_steps] =
          true;
  }
  std::vector<std::size_t> result(steps.size(), 1);
  for (std::size_t i = 0, end = 0; i < steps.size(); i = end) {
    std::vector<const TileProgram*> programs{std::get_if<TileProgram>(&steps[i])};
    for (end = i + 1; programs[0] && end < steps.size() && !begins[end]; ++end) {
      programs.push_back(std::get_if<TileProgram>(&steps[end]));
      if (!programs.back() || programs.size() > TileProgram::kMostJoined ||
          !TileProgram::can_join(plan, programs))
        break;
      result[end] = 0;
    }
    result[i] = end - i;
  }
  return result;
}

PreparedStep StepMaker::make(const plan::fb::StepT& step, const BoundShape& shape) const {
  const plan::fb::PlanT& meta = plan.meta;
  switch (step.work.type) {
    case Work::LoopStep:
      return TileProgram(meta, *step.work.AsLoopStep()->program, shape.expressions, threads);
    case Work::MatmulStep: {
      const plan::fb::MatmulStepT& product = *step.work.AsMatmulStep();
      const plan::PlanData& own = weights.plan();
      if (product.quantization) return MatmulQuant(own, product, shape, weights, threads);
      if (MatmulPanels::takes(own, product, shape))
        return MatmulPanels(own, product, shape, weights, threads);
      return MatmulDnnl(own, product, shape, weights, threads);
    }
    case Work::ConvStep:
      return ConvDnnl(weights.plan(), *step.work.AsConvStep(), shape, weights, threads);
    case Work::CopyStep: {
      const plan::fb::CopyStepT& copy = *step.work.AsCopyStep();
      return Copy{copy.source, copy.target,
                  static_cast<std::size_t>(shape.expressions[copy.bytes])};
    }
    case Work::OperatorStep:
      return OperatorStep(meta, *step.work.AsOperatorStep(), shape, weights, threads, ranks);
    case Work::HostStep:
      return HostStep(plan, *step.work.AsHostStep(), shape, *operators, threads, allocator);
    case Work::AttentionStep:
      return CpuAttention(meta, *step.work.AsAttentionStep(), shape, threads);
    case Work::WhileStep: {
      const plan::fb::WhileStepT& loop = *step.work.AsWhileStep();
      const std::int64_t trips =
          loop.trips < 0 ? -1 : shape.expressions[static_cast<std::size_t>(loop.trips)];
      return While{loop.steps, trips, loop.condition, loop.counter};
    }
    case Work::IfStep: {
      const plan::fb::IfStepT& branch = *step.work.AsIfStep();
      return If{branch.condition, branch.then_steps, branch.else_steps};
    }
    case Work::ExtentStep: {
      const std::uint32_t buffer = step.work.AsExtentStep()->extent;
      return Extent{buffer, plan::symbol_of_extent(meta, buffer)};
    }
    default: throw internal_error("a kind of step that the CPU does not run");
  }
}

}  // namespace sinter::runtime::cpu
