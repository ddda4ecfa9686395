// SPDX-License-Identifier: Apache-2.0
#include "fusion/projections/column_slices.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace sinter::fusion {
namespace {

/// Part of one dimension, which is that many from the last.
struct Part {
  std::size_t from_last = 0;
  Dim start, count;
};

/// The part that a slice keeps, of all other dimensions everything.
std::optional<Part> part_of(const Node& node, const Shape& from) {
  if (node.op->name != "Slice") return std::nullopt;
  const auto& starts = node.attrs.get_dims("starts");
  const auto& shape = node.attrs.get_dims("shape");
  const auto& steps = node.attrs.get_ints("steps");
  std::optional<Part> part;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (steps[d] != 1) return std::nullopt;
    if (starts[d] == Dim(0) && shape[d] == from[d]) continue;
    if (part) return std::nullopt;
    part = Part{from.size() - 1 - d, starts[d], shape[d]};
  }
  return part;
}

Dim& dim_at(Shape& shape, std::size_t from_last) { return shape[shape.size() - 1 - from_last]; }
/// 1 where the shape has no such dimension, as in broadcasts.
Dim dim_at(const Shape& shape, std::size_t from_last) {
  return from_last < shape.size() ? shape[shape.size() - 1 - from_last] : Dim(1);
}

ValueId slice(GraphBuilder& builder, ValueId value, const Part& part) {
  Shape shape = builder.type(value).shape;
  std::vector<Dim> starts(shape.size(), Dim(0));
  dim_at(starts, part.from_last) = part.start;
  const std::vector<std::int64_t> steps(shape.size(), 1);
  dim_at(shape, part.from_last) = part.count;
  return builder.add(
      "Slice", {value},
      {{"starts", std::move(starts)}, {"steps", steps}, {"shape", std::move(shape)}});
}

/// Where a Reshape's operand has the result's dimension, with the same elements behind it.
std::optional<std::size_t> dim_before(const Graph& graph, const Node& reshape,
                                      std::size_t from_last) {
  const Shape &from = graph.type(reshape.inputs[0]).shape,
              &to = graph.type(reshape.outputs[0]).shape;
  Dim behind = 1, own = 1;
  for (std::size_t d = 0; d < from_last; ++d) behind = behind * dim_at(to, d);
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (own == behind && dim_at(from, d) == dim_at(to, from_last)) return d;
    own = own * dim_at(from, d);
  }
  return std::nullopt;
}

/// A value that disjoint slices of one dimension read, and the chain of nodes that computes it for
/// them alone; with each node's operands, the place of the dimension in these.
struct SlicedChain {
  ValueId value;
  std::map<const Node*, std::size_t> nodes;
};

class ChainFinder {
 public:
  explicit ChainFinder(const Graph& graph) : graph_(graph) {}

  std::optional<SlicedChain> find(ValueId value) const {
    const auto& users = graph_.users(value);
    if (graph_.is_output(value) || users.size() < 2) return std::nullopt;
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
    bool is_reduced = false;
    std::optional<std::size_t> from_last;
    for (const NodeId id : users) {
      const auto part = part_of(graph_.node(id), graph_.type(value).shape);
      if (!part || !part->start.is_constant() || !part->count.is_constant() ||
          from_last.value_or(part->from_last) != part->from_last)
        return std::nullopt;
      from_last = part->from_last;
      parts.emplace_back(part->start.value(), part->count.value());
      is_reduced = is_reduced || reduces(graph_.node(id).outputs[0], kFar);
    }
    std::ranges::sort(parts);
    for (std::size_t i = 1; i < parts.size(); ++i)
      if (parts[i - 1].first + parts[i - 1].second > parts[i].first) return std::nullopt;
    SlicedChain chain{value, {}};
    if (!is_reduced || !add(value, *from_last, chain)) return std::nullopt;
    const bool computes = std::ranges::any_of(
        chain.nodes, [](const auto& each) { return each.first->op->kind == OpKind::kPointwise; });
    return computes ? std::optional(std::move(chain)) : std::nullopt;
  }

 private:
  static constexpr int kFar = 8;
  static constexpr std::size_t kMostNodes = 64;

  /// Whether a reduction reads `value`, at most `far` views and pointwise operators behind it.
  bool reduces(ValueId value, int far) const {
    return std::ranges::any_of(graph_.users(value), [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (node.op->kind == OpKind::kReduce) return true;
      const bool passes = node.op->kind == OpKind::kPointwise || node.op->kind == OpKind::kView;
      return passes && far > 0 && reduces(node.outputs[0], far - 1);
    });
  }

  /// Adds what computes `value` for the chain alone; false if a product would lose its epilogue.
  bool add(ValueId value, std::size_t from_last, SlicedChain& chain) const {
    const Node* node = graph_.producer(value);
    if (node == nullptr || dim_at(graph_.type(value).shape, from_last) == Dim(1)) return true;
    if (node->op->kind == OpKind::kLibrary) return graph_.users(value).size() > 1;
    std::optional<std::size_t> before;
    if (node->op->kind == OpKind::kPointwise) before = from_last;
    if (node->op->name == "Reshape") before = dim_before(graph_, *node, from_last);
    if (!before || (value != chain.value && !is_of(chain, value))) return true;
    const auto [at, is_new] = chain.nodes.emplace(node, *before);
    if (!is_new) return at->second == *before;
    return chain.nodes.size() <= kMostNodes &&
           std::ranges::all_of(node->inputs,
                               [&](ValueId input) { return add(input, *before, chain); });
  }
  bool is_of(const SlicedChain& chain, ValueId value) const {
    return !graph_.is_output(value) && std::ranges::all_of(graph_.users(value), [&](NodeId id) {
      return chain.nodes.contains(&graph_.node(id));
    });
  }

  const Graph& graph_;
};

/// Computes a part of a chain's value in the graph that is built.
class ChainSlicer {
 public:
  ChainSlicer(const Graph& old, const std::map<ValueId, ValueId>& built, const SlicedChain& chain,
              GraphBuilder& builder)
      : old_(old), built_(built), chain_(chain), builder_(builder) {}

  ValueId of(ValueId value, const Part& part) {
    if (dim_at(old_.type(value).shape, part.from_last) == Dim(1)) return built_.at(value);
    if (const auto done = done_.find(value); done != done_.end()) return done->second;
    const Node* node = old_.producer(value);
    const auto member = chain_.nodes.find(node);
    if (member == chain_.nodes.end()) return done_[value] = slice(builder_, built_.at(value), part);
    std::vector<ValueId> inputs;
    for (const ValueId input : node->inputs)
      inputs.push_back(of(input, {member->second, part.start, part.count}));
    const GraphBuilder::OriginScope origins(builder_, node->origins);
    if (node->op->kind == OpKind::kPointwise)
      return done_[value] = builder_.add(node->op->name, std::move(inputs), node->attrs);
    Shape narrow = old_.type(value).shape;
    dim_at(narrow, part.from_last) = part.count;
    return done_[value] = builder_.add("Reshape", std::move(inputs), {{"shape", narrow}});
  }

 private:
  const Graph& old_;
  const std::map<ValueId, ValueId>& built_;
  const SlicedChain& chain_;
  GraphBuilder& builder_;
  std::map<ValueId, ValueId> done_;
};

}  // namespace

bool gathers_rows(const Graph& graph, const Node& node, const Dim& columns) {
  if (node.op->name != "Gather") return false;
  const Shape& rows = graph.type(node.inputs[0]).shape;
  return rows.size() > 1 && rows.back() == columns &&
         node.attrs.get_int("axis") + 1 < static_cast<std::int64_t>(rows.size());
}

Graph slice_behind_gathers(const Graph& graph) {
  return ir::rewrite(
      graph,
      [](GraphBuilder& builder, const Graph& old, const Node& node,
         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (node.op->name != "Gather") return std::nullopt;
        const Shape rows = old.type(node.inputs[0]).shape;
        if (!gathers_rows(old, node, rows.back())) return std::nullopt;
        const Node* view = builder.producer(inputs[0]);
        const bool is_reshaped = view != nullptr && view->op->name == "Reshape" &&
                                 builder.type(view->inputs[0]).shape.back() == rows.back();
        if (is_reshaped) view = builder.producer(view->inputs[0]);
        if (view == nullptr || view->op->name != "Slice") return std::nullopt;
        ValueId whole = view->inputs[0];
        const Shape from = builder.type(whole).shape;
        const auto columns = part_of(*view, from);
        if (!columns || columns->from_last != 0) return std::nullopt;
        if (is_reshaped) {
          Shape wide = rows;
          wide.back() = from.back();
          whole = builder.add("Reshape", {whole}, {{"shape", std::move(wide)}});
        }
        return std::vector{
            slice(builder, builder.add("Gather", {whole, inputs[1]}, node.attrs), *columns)};
      });
}

Graph split_sliced_chains(const Graph& graph) {
  std::map<ValueId, SlicedChain> chains;
  std::set<const Node*> members;
  const ChainFinder finder(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "Slice" || chains.contains(node.inputs[0])) continue;
    auto chain = finder.find(node.inputs[0]);
    if (!chain) continue;
    for (const auto& [member, unused] : chain->nodes) members.insert(member);
    chains.emplace(node.inputs[0], std::move(*chain));
  }
  if (chains.empty()) return graph;
  std::map<ValueId, ValueId> built;  // what chains read
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (members.contains(&node))
          for (std::size_t i = 0; i < inputs.size(); ++i) built[node.inputs[i]] = inputs[i];
        if (node.op->name != "Slice") return std::nullopt;
        const auto chain = chains.find(node.inputs[0]);
        if (chain == chains.end()) return std::nullopt;
        const Part part = *part_of(node, old.type(node.inputs[0]).shape);
        return std::vector{
            ChainSlicer(old, built, chain->second, builder).of(node.inputs[0], part)};
      });
}

}  // namespace sinter::fusion
