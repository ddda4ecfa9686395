// SPDX-License-Identifier: Apache-2.0
// Regions of one Suppress.
#include <fmt/format.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/suppression/emit_suppression.h"

namespace sinter::codegen {
namespace {

SuppressionProblem problem_of(const OperatorRegion& region) {
  SuppressionProblem problem;
  problem.boxes = region.buffer(0);
  problem.valid = region.buffer(1);
  problem.kept = region.region.outputs[0];
  const Shape& shape = region.shape(1);
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) problem.rows *= shape[d];
  problem.length = shape.back();
  problem.iou = region.node.attrs.get_float("iou");
  problem.most = region.node.attrs.get_int("most");
  return problem;
}

class SuppressionFamily final : public OperatorFamily {
 public:
  SuppressionFamily() : OperatorFamily("suppression", "Suppress") {}

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const SuppressionProblem p = problem_of(region);
    const Dim boxes = p.rows * p.length;
    // Each box is compared with all earlier ones, as if all were kept.
    return {boxes * Dim(17), boxes, boxes * p.length * Dim(7)};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext&, StepT&) const override {
    const SuppressionProblem p = problem_of(region);
    return emitted(region,
                   fmt::format("suppression {} {} {} {}", p.rows.to_string(), p.length.to_string(),
                               p.iou, p.most),
                   {p.boxes, p.valid, p.kept}, [p](const KernelRequest& request, ExprTable& exprs) {
                     return emit_suppression(p, request, exprs);
                   });
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    const SuppressionProblem p = problem_of(region);
    return operator_step("suppression", exprs,
                         {{p.boxes, {p.rows, p.length, 4}}, {p.valid, {p.rows, p.length}}},
                         {{p.kept, {p.rows, p.length}}}, {{"iou", p.iou}, {"most", p.most}});
  }
};

}  // namespace

const KernelFamily& suppression_family() {
  static const SuppressionFamily family;
  return family;
}

}  // namespace sinter::codegen
