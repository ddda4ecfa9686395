// SPDX-License-Identifier: Apache-2.0
// Regions of a Route, maybe with the matmul that computes its logits, of choices sorted by expert
// (ir/mixture/expert_rows.h), or of both.
#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/routing/emit_routing.h"

namespace sinter::codegen {
namespace {

/// What a region computes, by its nodes.
class RoutingReader {
 public:
  explicit RoutingReader(const Region& region) : region_(region), body_(*region.node.body) {}

  RoutingProblem read() {
    const Node *route = nullptr, *sort = nullptr;
    for (const Node& node : body_.nodes()) {
      if (node.op->name == "Route") route = &node;
      if (node.op->name == "GroupByIndex") sort = &node;
      if (node.op->name == "Where") set_padding(node);
    }
    if (route != nullptr) set_rule(*route);
    if (sort != nullptr) set_order(*sort, route != nullptr);
    for (std::size_t i = 0; i < body_.outputs().size(); ++i)
      set_result(body_.outputs()[i], region_.outputs[i]);
    return std::move(problem_);
  }

 private:
  [[noreturn]] static void refuse(const char* why) {
    throw Error(ErrorCode::kUnsupported, fmt::format("a region of kind 'route': {}", why));
  }
  std::uint32_t buffer(ValueId value) const {
    const auto at = body_.input_number(value);
    if (!at) refuse("it routes what is not in memory");
    return region_.inputs[*at];
  }

  void set_rule(const Node& route) {
    RouteRule& rule = problem_.rule ? *problem_.rule : problem_.rule.emplace();
    if (body_.producer(route.inputs[0]) != nullptr)
      rule.product = product(route.inputs[0]);
    else
      rule.logits = buffer(route.inputs[0]);
    rule.type = body_.type(route.inputs[0]).dtype;
    rule.experts = body_.type(route.inputs[0]).shape[1].value();
    if (route.inputs.size() > 1) {
      rule.bias = buffer(route.inputs[1]);
      rule.bias_type = body_.type(route.inputs[1]).dtype;
    }
    const ir::Attrs& attrs = route.attrs;
    rule.groups = attrs.get_int("groups");
    rule.kept_groups = attrs.get_int("kept_groups");
    rule.group_scores = attrs.get_int("group_scores");
    rule.zero_outside = attrs.get_int("zero_outside") != 0;
    rule.scores = attrs.get_string("scores");
    rule.normalises = attrs.get_int("normalise") != 0;
    rule.epsilon = attrs.get_float("epsilon");
    rule.scale = attrs.get_float("scale");
    rule.jitter = attrs.get_float("jitter");
    problem_.tokens = body_.type(route.inputs[0]).shape[0];
    problem_.chosen = problem_.divisor = attrs.get_int("k");
  }
  /// What fuse_routes puts in front of a Route: the matmul, the bias, a conversion.
  RouterOperands product(ValueId logits) const {
    RouterOperands result;
    const Node* node = body_.producer(logits);
    if (node->op->name == "Cast") node = body_.producer(node->inputs[0]);
    if (node != nullptr && node->op->name == "Add") {
      const bool is_first = body_.producer(node->inputs[0]) == nullptr;
      const ValueId added = node->inputs[is_first ? 0 : 1];
      result.added = buffer(added);
      result.added_type = body_.type(added).dtype;
      node = body_.producer(node->inputs[is_first ? 1 : 0]);
    }
    if (node == nullptr || node->op->name != "MatMul") refuse("other nodes compute its logits");
    const Node* view = body_.producer(node->inputs[1]);
    if (view == nullptr || view->op->name != "Transpose") refuse("its router has no rows of k");
    result.x = buffer(node->inputs[0]);
    result.weights = buffer(view->inputs[0]);
    result.type = body_.type(node->inputs[0]).dtype;
    result.depth = body_.type(node->inputs[0]).shape[1].value();
    return result;
  }
  /// Where(is a token, choices, no expert).
  void set_padding(const Node& where) {
    RouteRule& rule = problem_.rule ? *problem_.rule : problem_.rule.emplace();
    rule.is_token = buffer(where.inputs[0]);
    const auto& none = body_.value(where.inputs[2]).constant;
    if (none == nullptr) refuse("padding chooses no constant");
    rule.none = static_cast<std::int32_t>(none->at_int(0));
  }
  void set_order(const Node& sort, bool is_routed) {
    problem_.extent = sort.attrs.get_dims("extent")[0].value();
    if (is_routed) return;
    problem_.given = buffer(sort.inputs[0]);
    problem_.tokens = body_.type(sort.inputs[0]).shape[0];
  }

  void set_result(ValueId value, std::uint32_t buffer) {
    const Node* node = body_.producer(value);
    while (node != nullptr && node->op->name == "Reshape") {
      value = node->inputs[0];
      node = body_.producer(value);
    }
    if (node == nullptr) refuse("it gives what it gets");
    const std::string& op = node->op->name;
    if (op == "Route") {
      (value == node->outputs[0] ? problem_.choices : problem_.shares) = buffer;
    } else if (op == "Where") {
      problem_.choices = buffer;
    } else if (op == "GroupByIndex") {
      (value == node->outputs[0] ? problem_.order : problem_.offsets) = buffer;
    } else if (op == "Div") {
      problem_.tokens_of = buffer;
      problem_.divisor = body_.value(node->inputs[1]).constant->at_int(0);
    } else if (op == "Gather" || op == "Min") {
      if (op == "Min")
        problem_.last_expert =
            static_cast<std::int32_t>(body_.value(node->inputs[1]).constant->at_int(0));
      problem_.experts_of = buffer;
    } else if (op == "LastByIndex") {
      problem_.rows_of = buffer;
    } else {
      refuse("it has other nodes");
    }
  }

  const Region& region_;
  const Graph& body_;
  RoutingProblem problem_;
};

class RoutingFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "routing"; }
  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (region.kind() != "route") return "it routes no tokens to experts";
    return target.generates_kernels ? "" : "this target decomposes a Route";
  }
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const RoutingProblem problem = RoutingReader(region).read();
    std::vector<StepTactics> steps;
    StepTactics& result = steps.emplace_back(StepTactics{step_of(region), {}});
    set_cost(result.step, cost(problem, region, plan), plan.exprs);
    std::vector<std::uint32_t> scratch, buffers = problem.buffers();
    for (const Dim& bytes : problem.scratch_bytes(plan.exprs)) {
      scratch.push_back(plan.buffers.scratch({DType::kUInt8, {bytes}}));
      result.step.writes.push_back(scratch.back());
      buffers.push_back(scratch.back());
    }
    const Graph& body = *region.node.body;
    Tactic tactic = emitted({region, body, body.nodes()[0]}, problem.to_string(), buffers,
                            [problem, scratch](const KernelRequest& request, ExprTable& exprs) {
                              return emit_routing(problem, scratch, request, exprs);
                            });
    if (const std::size_t behind = problem.kernels_behind(plan.exprs); behind > 0) {
      tactic.name = "routing";
      tactic.parts.resize(1 + behind);
    }
    result.tactics.push_back(std::move(tactic));
    return steps;
  }

 private:
  static StepCost cost(const RoutingProblem& problem, const Region& region,
                       const PlanContext& plan) {
    const auto bytes = [&](const std::vector<std::uint32_t>& buffers) {
      Dim all = 0;
      for (const std::uint32_t buffer : buffers) all += plan.buffers.size(buffer).bytes;
      return all;
    };
    const std::int64_t each = problem.rule ? problem.rule->experts : 1;
    return {bytes(region.inputs), bytes(region.outputs),
            problem.tokens * Dim(each * (problem.chosen + 4))};
  }
};

}  // namespace

const KernelFamily& routing_family() {
  static const RoutingFamily family;
  return family;
}

}  // namespace sinter::codegen
