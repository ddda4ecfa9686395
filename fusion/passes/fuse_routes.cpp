// SPDX-License-Identifier: Apache-2.0
// Routing in one kernel: the scores of few tokens, which experts tokens choose, and the choices
// sorted by expert (ir/mixture/expert_rows.h).
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/region.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Whether the kernel that routes can compute the logits by itself: few tokens, and experts whose
/// logits fit beside what it sorts by; rows of k in weights that it reads by vectors.
Verdict is_router(const Graph& graph, const Node& matmul, const TargetTraits& target) {
  constexpr std::int64_t kMostExperts = 256, kVector = 8;
  if (!target.gemm_kernels) return {false, "a library multiplies"};
  const TensorType& x = graph.type(matmul.inputs[0]);
  const Node* view = graph.producer(matmul.inputs[1]);
  if (!ir::is_plain_matmul(matmul) || x.shape.size() != 2 || view == nullptr ||
      view->op->name != "Transpose" || graph.value(view->inputs[0]).constant == nullptr)
    return {false, "its weights are no constant rows of k"};
  const Shape& weights = graph.type(view->inputs[0]).shape;
  if ((x.dtype != DType::kFloat16 && x.dtype != DType::kBFloat16) || weights.size() != 2 ||
      weights[1].value() % kVector != 0 || weights[0].value() > kMostExperts)
    return {false, "its operands are no vectors of 16-bit floats, or are of too many experts"};
  const auto most = ir::upper_bound(x.shape[0], graph.ranges());
  if (!most || *most > target.few_rows) return {false, "tokens may be many"};
  return {true, ""};
}

/// The nodes that sort the choices of a GroupByIndex, and make them.
class RouteFinder {
 public:
  RouteFinder(const Graph& graph, const Node& sort) : graph_(graph), sort_(sort) {
    const ValueId flat = sort.inputs[0], order = sort.outputs[0];
    take(sort);
    find_route(flat);
    for (const NodeId user : graph.users(order)) {
      const Node& node = graph.node(user);
      if (may_join(node, flat, order)) take(node);
      if (node.op->name == "Gather" && has(user)) take_limit(node.outputs[0]);
    }
  }

  const Node* route() const { return route_; }
  /// With the router's matmul.
  void take_router(const TargetTraits& target, Context& context) {
    if (router_ == nullptr) return;
    const Verdict verdict = is_router(graph_, *router_, target);
    decide(context, *router_, *route_, verdict.ok,
           verdict.ok ? "the kernel that routes few tokens computes their scores" : verdict.reason);
    if (!verdict.ok) return;
    take(*router_);
    take(*graph_.producer(router_->inputs[1]));
    for (const Node* node : behind_router_) take(*node);
  }
  /// Whether there is more than a GroupByIndex, which has a kernel of its own.
  bool is_mixture() const { return nodes_.size() > 1; }

  Piece piece() const {
    BodyBuilder body(graph_);
    for (const NodeId id : nodes_) copy(body, graph_.node(id));
    std::vector<ValueId> writes, stored;
    for (const NodeId id : nodes_) {
      const Node& node = graph_.node(id);
      if (node.op->name == "Reshape") continue;  // outside, it is free
      for (const ValueId result : node.outputs)
        if (is_wanted(result)) writes.push_back(result);
    }
    for (const ValueId value : writes) stored.push_back(body.import(value));
    return body_piece("route", body, stored, writes);
  }

 private:
  static void copy(BodyBuilder& body, const Node& node) {
    if (node.op->name != "Gather") return body.copy(node);
    // Of choices that the region makes, which need not be in memory.
    const ValueId inputs[] = {body.import(node.inputs[0]), body.import(node.inputs[1])};
    GraphBuilder::OriginScope scope(body.builder(), node.origins);
    body.bind(node.outputs[0], body.builder().add("Gather", {inputs[0], inputs[1]}, node.attrs));
  }

  void take(const Node& node) { nodes_.insert(graph_.value(node.outputs[0]).producer); }
  bool has(NodeId id) const { return nodes_.contains(id); }

  /// Whether something outside reads the value, maybe through a reshape.
  bool is_wanted(ValueId value) const {
    if (graph_.is_output(value)) return true;
    return std::ranges::any_of(graph_.users(value), [&](NodeId user) {
      const Node& node = graph_.node(user);
      if (!has(user)) return true;
      return node.op->name == "Reshape" && is_wanted(node.outputs[0]);
    });
  }

  bool is_number(ValueId value) const {
    const auto& constant = graph_.value(value).constant;
    return constant != nullptr && constant->element_count() == 1;
  }

  /// The Route whose choices, maybe but for those of padding, are `flat`.
  void find_route(ValueId flat) {
    const Node* reshape = graph_.producer(flat);
    if (reshape == nullptr || reshape->op->name != "Reshape") return;
    ValueId choices = reshape->inputs[0];
    const Node* where = graph_.producer(choices);
    if (where != nullptr && where->op->name == "Where") {
      const Shape &tokens = graph_.type(where->inputs[0]).shape,
                  &shape = graph_.type(choices).shape;
      if (shape.size() != 2 || tokens != Shape{shape[0], Dim(1)} || !is_number(where->inputs[2]) ||
          graph_.users(where->inputs[1]).size() != 1 || graph_.is_output(where->inputs[1]))
        return;
      choices = where->inputs[1];
    } else {
      where = nullptr;
    }
    const Node* route = graph_.producer(choices);
    if (route == nullptr || route->op->name != "Route" || choices != route->outputs[0]) return;
    route_ = route;
    take(*route);
    find_router(route->inputs[0]);
    if (where != nullptr) take(*where);
    take(*reshape);
  }

  const Node* only_producer(ValueId value) const {
    if (graph_.users(value).size() != 1 || graph_.is_output(value)) return nullptr;
    return graph_.producer(value);
  }
  /// The matmul of the logits, maybe with a bias and a conversion behind it.
  void find_router(ValueId logits) {
    const Node* node = only_producer(logits);
    std::vector<const Node*> behind;
    if (node != nullptr && node->op->name == "Cast" &&
        is_float(graph_.type(node->inputs[0]).dtype)) {
      behind.push_back(node);
      node = only_producer(node->inputs[0]);
    }
    if (node != nullptr && node->op->name == "Add") {
      const std::size_t at = graph_.is_constant(node->inputs[0]) ? 1 : 0;
      const Shape& shape = graph_.type(node->inputs[at]).shape;
      if (!is_bias(graph_, node->inputs[1 - at], shape)) return;
      behind.push_back(node);
      node = only_producer(node->inputs[at]);
    }
    if (node == nullptr || node->op->name != "MatMul") return;
    router_ = node;
    behind_router_ = std::move(behind);
  }

  /// The Min that turns no expert into one, if nothing else reads rows' experts.
  void take_limit(ValueId experts) {
    if (graph_.users(experts).size() != 1 || graph_.is_output(experts)) return;
    const Node& node = graph_.node(graph_.users(experts)[0]);
    if (node.op->name == "Min" && node.inputs[0] == experts && is_number(node.inputs[1]))
      take(node);
  }

  bool may_join(const Node& node, ValueId flat, ValueId order) const {
    const std::string& op = node.op->name;
    const auto is_there = [&](std::string_view name) {
      return std::ranges::any_of(nodes_,
                                 [&](NodeId id) { return graph_.node(id).op->name == name; });
    };
    if (is_there(op)) return false;
    if (op == "Gather")
      return node.inputs[0] == flat && node.inputs[1] == order && node.attrs.get_int("axis") == 0;
    if (op == "LastByIndex") return node.attrs.get_dims("extent")[0] == graph_.type(order).shape[0];
    if (op != "Div" || node.inputs[0] != order) return false;
    if (!is_number(node.inputs[1])) return false;
    const std::int64_t divisor = graph_.value(node.inputs[1]).constant->at_int(0);
    return route_ == nullptr ? divisor > 0 : divisor == route_->attrs.get_int("k");
  }

  const Graph& graph_;
  const Node& sort_;
  const Node *route_ = nullptr, *router_ = nullptr;
  std::vector<const Node*> behind_router_;
  std::set<NodeId> nodes_;
};

}  // namespace

Graph fuse_routes(const Graph& graph, Context& context) {
  const ir::OperandFormats* const row = context.target.first_of("Route", false);
  if (row == nullptr) return graph;
  std::vector<Piece> pieces;
  std::set<const Node*> routes;
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "GroupByIndex") continue;
    const Dim& extent = node.attrs.get_dims("extent")[0];
    const TensorType& choices = graph.type(node.inputs[0]);
    // Of more experts, and of few that are no experts', the order is a kernel of its own.
    if (choices.dtype != DType::kInt32 || !extent.is_constant() || extent.value() > row->most + 1)
      continue;
    RouteFinder finder(graph, node);
    if (!finder.is_mixture()) continue;
    const Node* const route = finder.route();
    if (route != nullptr) {
      if (!routes.insert(route).second) continue;
      decide(context, *route, node, true, "one kernel routes tokens and sorts their choices");
      finder.take_router(context.target, context);
    }
    pieces.push_back(finder.piece());
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
