// SPDX-License-Identifier: Apache-2.0
// Regions of one SelectIndices.
#include <fmt/format.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/selection/emit_selection.h"

namespace sinter::codegen {
namespace {

class SelectionFamily final : public OperatorFamily {
 public:
  SelectionFamily() : OperatorFamily("selection", "SelectIndices") {}

 private:
  static SelectionProblem problem_of(const OperatorRegion& region) {
    return {region.buffer(0),
            region.buffer(1),
            region.region.outputs[0],
            region.shape(0)[0],
            region.node.attrs.get_dims("count").at(0),
            region.shape(0)[1].value()};
  }

  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const SelectionProblem p = problem_of(region);
    const Dim flags = p.tiles * Dim(p.tile);
    return {flags + p.tiles * Dim(8), p.count * Dim(8), flags};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext&, StepT&) const override {
    const SelectionProblem p = problem_of(region);
    return emitted(
        region, fmt::format("selection {} {} {}", p.tiles.to_string(), p.tile, p.count.to_string()),
        {p.flags, p.before, p.indices}, [p](const KernelRequest& request, ExprTable& exprs) {
          return emit_selection(p, request, exprs);
        });
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return operator_step("selection", exprs, {region.input(0), region.input(1)},
                         {region.output(0)});
  }
};

}  // namespace

const KernelFamily& selection_family() {
  static const SelectionFamily family;
  return family;
}

}  // namespace sinter::codegen
