// SPDX-License-Identifier: Apache-2.0
// Regions of one Suppress.
#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/family.h"
#include "codegen/families/suppression/emit_suppression.h"

namespace sinter::codegen {
namespace {

SuppressionProblem problem_of(const Region& region) {
  const Graph& body = *region.node.body;
  const Node* suppress = region.outputs.size() == 1 ? body.producer(body.outputs()[0]) : nullptr;
  if (suppress == nullptr || suppress->op->name != "Suppress" || region.inputs.size() != 2)
    throw Error(ErrorCode::kUnsupported,
                "a region of kind 'suppression' must be one Suppress of values in memory");
  SuppressionProblem problem;
  const auto buffer = [&](ValueId value) { return region.inputs[*body.input_number(value)]; };
  problem.boxes = buffer(suppress->inputs[0]);
  problem.valid = buffer(suppress->inputs[1]);
  problem.kept = region.outputs[0];
  const Shape& shape = body.type(suppress->inputs[1]).shape;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) problem.rows *= shape[d];
  problem.length = shape.back();
  problem.iou = suppress->attrs.get_float("iou");
  return problem;
}

class SuppressionKernel final : public KernelProgram {
 public:
  explicit SuppressionKernel(SuppressionProblem problem) : p_(std::move(problem)) {}

  std::string signature(const ExprTable&) const override {
    return fmt::format("suppression {} {} {}", p_.rows.to_string(), p_.length.to_string(), p_.iou);
  }
  std::vector<std::uint32_t> buffers() const override { return {p_.boxes, p_.valid, p_.kept}; }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_suppression(p_, request, exprs);
  }

 private:
  SuppressionProblem p_;
};

class SuppressionFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "suppression"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "suppression" ? "" : "it suppresses no boxes";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const SuppressionProblem problem = problem_of(region);
    StepTactics result{step_of(region), {}};
    const Dim boxes = problem.rows * problem.length;
    // Each box is compared with all earlier ones, as if all were kept.
    set_cost(result.step, {boxes * Dim(17), boxes, boxes * problem.length * Dim(7)}, plan.exprs);
    if (plan.generates_kernels()) {
      result.tactics.push_back(only(region.name, std::make_shared<SuppressionKernel>(problem)));
    } else {
      plan::fb::SuppressionStepT step;
      step.boxes = problem.boxes;
      step.valid = problem.valid;
      step.kept = problem.kept;
      step.rows = plan.exprs.intern(problem.rows);
      step.length = plan.exprs.intern(problem.length);
      step.iou = static_cast<float>(problem.iou);
      result.tactics.push_back(only(step));
    }
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }
};

}  // namespace

const KernelFamily& suppression_family() {
  static const SuppressionFamily family;
  return family;
}

}  // namespace sinter::codegen
