// SPDX-License-Identifier: Apache-2.0
// Regions of one TreeEnsemble.
#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/family.h"
#include "codegen/families/trees/emit_trees.h"

namespace sinter::codegen {
namespace {

TreeProblem problem_of(const Region& region) {
  const Graph& body = *region.node.body;
  const Node* trees = region.outputs.size() == 1 ? body.producer(body.outputs()[0]) : nullptr;
  if (trees == nullptr || trees->op->name != "TreeEnsemble" || region.inputs.size() != 5)
    throw Error(ErrorCode::kUnsupported,
                "a region of kind 'trees' must be one TreeEnsemble of values in memory");
  const auto buffer = [&](std::size_t i) {
    return region.inputs[*body.input_number(trees->inputs[i])];
  };
  const auto shape = [&](std::size_t i) -> const Shape& {
    return body.type(trees->inputs[i]).shape;
  };
  TreeProblem problem;
  problem.x = buffer(0);
  problem.nodes = buffer(1);
  problem.thresholds = buffer(2);
  problem.trees = buffer(3);
  problem.weights = buffer(4);
  problem.result = region.outputs[0];
  problem.dtype = body.type(trees->inputs[0]).dtype;
  problem.rows = shape(0)[0];
  problem.columns = shape(0)[1].value();
  problem.node_count = shape(1)[0].value();
  problem.tree_count = shape(3)[0].value();
  problem.width = shape(4)[1].value();
  problem.targets = trees->attrs.get_int("targets");
  for (int c = 0; c < kCombineCount; ++c)
    if (trees->attrs.get_string("combine") == to_string(static_cast<Combine>(c)))
      problem.combine = static_cast<Combine>(c);
  return problem;
}

class TreeKernel final : public KernelProgram {
 public:
  explicit TreeKernel(TreeProblem problem) : p_(std::move(problem)) {}

  std::string signature(const ExprTable&) const override {
    return fmt::format("trees {} {} of {} columns, {} nodes, {} trees, {} of {} targets, {}",
                       to_string(p_.dtype), p_.rows.to_string(), p_.columns, p_.node_count,
                       p_.tree_count, p_.width, p_.targets, to_string(p_.combine));
  }
  std::vector<std::uint32_t> buffers() const override {
    return {p_.x, p_.nodes, p_.thresholds, p_.trees, p_.weights, p_.result};
  }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_trees(p_, request, exprs);
  }

 private:
  TreeProblem p_;
};

class TreeFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "trees"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "trees" ? "" : "it has no decision trees";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const TreeProblem p = problem_of(region);
    StepTactics result{step_of(region), {}};
    const auto element = static_cast<std::int64_t>(size_of(p.dtype));
    const std::int64_t levels = std::max<std::int64_t>(
        1, std::bit_width(
               static_cast<std::uint64_t>(p.node_count / std::max<std::int64_t>(1, p.tree_count))));
    // One comparison for each level of a balanced tree.
    set_cost(result.step,
             {p.rows * Dim(p.columns * element) + Dim(p.node_count * (12 + element)),
              p.rows * Dim(p.targets * element), p.rows * Dim(p.tree_count * levels)},
             plan.exprs);
    if (plan.generates_kernels()) {
      result.tactics.push_back(only(region.name, std::make_shared<TreeKernel>(p)));
    } else {
      plan::fb::TreeStepT step;
      step.rows_of = p.x;
      step.thresholds = p.thresholds;
      step.weights = p.weights;
      step.result = p.result;
      step.nodes = p.nodes;
      step.trees = p.trees;
      step.rows = plan.exprs.intern(p.rows);
      step.columns = static_cast<std::uint32_t>(p.columns);
      step.targets = static_cast<std::uint32_t>(p.targets);
      step.width = static_cast<std::uint32_t>(p.width);
      step.combine = static_cast<std::uint8_t>(p.combine);
      result.tactics.push_back(only(step));
    }
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }
};

}  // namespace

const KernelFamily& trees_family() {
  static const TreeFamily family;
  return family;
}

}  // namespace sinter::codegen
