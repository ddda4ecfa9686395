// SPDX-License-Identifier: Apache-2.0
// Regions of one TreeEnsemble.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/trees/emit_trees.h"

namespace sinter::codegen {
namespace {

TreeProblem problem_of(const OperatorRegion& region) {
  TreeProblem problem;
  problem.x = region.buffer(0);
  problem.nodes = region.buffer(1);
  problem.thresholds = region.buffer(2);
  problem.trees = region.buffer(3);
  problem.weights = region.buffer(4);
  problem.result = region.region.outputs[0];
  problem.dtype = region.type(0).dtype;
  problem.rows = region.shape(0)[0];
  problem.columns = region.shape(0)[1].value();
  problem.node_count = region.shape(1)[0].value();
  problem.tree_count = region.shape(3)[0].value();
  problem.width = region.shape(4)[1].value();
  const ir::Attrs& attrs = region.node.attrs;
  problem.targets = attrs.get_int("targets");
  for (int c = 0; c < kCombineCount; ++c)
    if (attrs.get_string("combine") == to_string(static_cast<Combine>(c)))
      problem.combine = static_cast<Combine>(c);
  return problem;
}

class TreeFamily final : public OperatorFamily {
 public:
  TreeFamily() : OperatorFamily("trees", "TreeEnsemble") {}

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const TreeProblem p = problem_of(region);
    const auto element = static_cast<std::int64_t>(size_of(p.dtype));
    const std::int64_t levels = std::max<std::int64_t>(
        1, std::bit_width(
               static_cast<std::uint64_t>(p.node_count / std::max<std::int64_t>(1, p.tree_count))));
    // One comparison for each level of a balanced tree.
    return {p.rows * Dim(p.columns * element) + Dim(p.node_count * (12 + element)),
            p.rows * Dim(p.targets * element), p.rows * Dim(p.tree_count * levels)};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext&, StepT&) const override {
    const TreeProblem p = problem_of(region);
    return emitted(
        region,
        fmt::format("trees {} {} of {} columns, {} nodes, {} trees, {} of {} targets, {}",
                    to_string(p.dtype), p.rows.to_string(), p.columns, p.node_count, p.tree_count,
                    p.width, p.targets, to_string(p.combine)),
        {p.x, p.nodes, p.thresholds, p.trees, p.weights, p.result},
        [p](const KernelRequest& request, ExprTable& exprs) {
          return emit_trees(p, request, exprs);
        });
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return operator_step(
        "trees", exprs,
        {region.input(0), region.input(1), region.input(2), region.input(3), region.input(4)},
        {region.output(0)}, {{"combine", static_cast<std::int64_t>(problem_of(region).combine)}});
  }
};

}  // namespace

const KernelFamily& trees_family() {
  static const TreeFamily family;
  return family;
}

}  // namespace sinter::codegen
