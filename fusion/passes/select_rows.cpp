// SPDX-License-Identifier: Apache-2.0
// Moves a Gather or Slice of few rows before nodes that compute row by row, up to attention over
// all rows, so that unread rows are not computed.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fusion/packing/token_axes.h"
#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

/// A node that takes `count` of the `all` rows along dimension `axis` of its first input.
struct Selection {
  const Node* node = nullptr;
  int axis = 0;
  Dim all, count;
  std::optional<Dim> start = {};  // of rows `step` apart; nothing: given by indices
  std::int64_t step = 1;
};

/// Whether `count` of `all` rows are so few that it pays to compute them apart: half of them, one,
/// or a number that the run chooses and that never is larger.
bool pays_to_select(const Graph& graph, const Dim& count, const Dim& all) {
  if (const auto symbol = count.as_symbol()) {
    const auto range = graph.ranges().find(*symbol);
    return range != graph.ranges().end() && range->second.symbolic_max &&
           *range->second.symbolic_max == all;
  }
  if (!count.is_constant()) return false;
  return all.is_constant() ? 2 * count.value() <= all.value() : count == Dim(1);
}

/// The row selected by a constant one-element index, among `all` rows.
std::optional<Dim> constant_row(const Graph& graph, ValueId index, const Dim& all) {
  const auto row = splat_value(graph, index);
  if (!row) return std::nullopt;
  const auto number = static_cast<std::int64_t>(*row);
  if (all.is_constant() ? number < -all.value() || number >= all.value()
                        : number < -1 || number > 0)
    return std::nullopt;
  return number < 0 ? all + Dim(number) : Dim(number);
}

std::optional<Selection> selection_of(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (op != "Gather" && op != "Slice") return std::nullopt;
  const Shape& from = graph.type(node.inputs[0]).shape;
  std::optional<Selection> found;
  if (op == "Gather") {
    const Shape& indices = graph.type(node.inputs[1]).shape;
    if (indices.size() > 1) return std::nullopt;
    const int axis = static_cast<int>(node.attrs.get_int("axis"));
    const Dim& all = from[dimension(axis)];
    found = {&node, axis, all, indices.empty() ? Dim(1) : indices[0]};
    if (found->count == Dim(1)) found->start = constant_row(graph, node.inputs[1], all);
  } else {
    const Shape& shape = node.attrs.get_dims("shape");
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (from[d] == shape[d] && node.attrs.get_ints("steps")[d] == 1) continue;
      if (found) return std::nullopt;
      found = {&node,
               static_cast<int>(d),
               from[d],
               shape[d],
               node.attrs.get_dims("starts")[d],
               node.attrs.get_ints("steps")[d]};
    }
  }
  return found && pays_to_select(graph, found->count, found->all) ? found : std::nullopt;
}

bool is_query_of(const Node& node, ValueId value) {
  return node.op->name == "Attention" && node.inputs[0] == value;
}

bool is_product(const Node& node) {
  return node.op->name == "MatMul" || node.op->name == "Attention";
}

/// A node of which only selected rows are needed: the dimension of rows in its result and in its
/// operands (-1: no rows).
struct RowNode {
  const Node* node;
  int axis;
  std::vector<int> operands;
};

class RowSelector {
 public:
  RowSelector(const Graph& graph, Selection selection)
      : graph_(graph),
        selection_(std::move(selection)),
        dims_{Dim(1), selection_.all, selection_.count} {}

  /// Nothing if no matmul would get fewer rows.
  std::optional<Piece> piece() {
    find();
    drop_views();
    if (std::ranges::none_of(nodes_, [](const RowNode& each) { return is_product(*each.node); }))
      return std::nullopt;
    return make();
  }

  /// The node whose rows are selected.
  const Node& last() const { return *nodes_.back().node; }

 private:
  /// Whether selected rows of causal attention see as many keys as without the other rows: rows
  /// align with the first or with the last key.
  bool sees_the_same(const Node& attention) const {
    const std::int64_t causal = attention.attrs.get_int("causal");
    if (causal == 0) return true;
    return selection_.start && selection_.step == 1 &&
           *selection_.start == (causal == 1 ? Dim(0) : selection_.all - selection_.count);
  }

  /// Rows of attention are those of its queries, masks and limits.
  std::optional<OperandAxes> attention_axes(const Node& node, int axis) const {
    const ir::AttentionInputs which =
        ir::attention_inputs(node.attrs, node.inputs.size(), graph_.type(node.inputs[1]).dtype);
    const int rank = static_cast<int>(graph_.type(node.outputs[0]).shape.size());
    if (axis != rank - 2 || which.bounds || node.body || !sees_the_same(node)) return std::nullopt;
    OperandAxes result(node.inputs.size());
    const auto align = [&](std::size_t i) {
      result[i] = aligned({axis, axis}, dimension(rank), graph_.type(node.inputs[i]).shape.size());
    };
    align(0);
    if (which.mask) align(*which.mask);
    if (which.limits) align(*which.limits);
    return result;
  }

  /// The dimension of rows in each operand, or -1; nothing if the node mixes rows.
  std::optional<std::vector<int>> operands(const Node& node, int axis) const {
    if (node.outputs.size() != 1 || !node.extents.empty()) return std::nullopt;
    const auto axes = node.op->name == "Attention"
                          ? attention_axes(node, axis)
                          : operand_axes(graph_, node, {axis, axis}, dims_);
    if (!axes) return std::nullopt;
    std::vector<int> result;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int own = (*axes)[i] ? (*axes)[i]->sequence : -1;
      const Shape& shape = graph_.type(node.inputs[i]).shape;
      const bool has_rows = own >= 0 && shape[dimension(own)] != Dim(1);
      if (has_rows && shape[dimension(own)] != selection_.all) return std::nullopt;
      result.push_back(has_rows ? own : -1);
    }
    return result;
  }

  /// Whether `user` needs only selected rows.
  bool needs_selected(NodeId user) const {
    const Node& node = graph_.node(user);
    return &node == selection_.node || (node.outputs.size() == 1 && is_mine(node.outputs[0]));
  }
  bool is_mine(ValueId value) const { return mine_.contains(value.index); }

  /// Projections of one activation are one matmul, so that the queries' one stays whole.
  bool is_query(ValueId value) const {
    return std::ranges::any_of(graph_.users(value),
                               [&](NodeId user) { return is_query_of(graph_.node(user), value); });
  }

  /// Whether all readers of a node's operands have rows along the same dimension.
  bool agree(const Node& node, const std::vector<int>& own) const {
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto wanted = axes_.find(node.inputs[i].index);
      if (wanted != axes_.end() && own[i] >= 0 && wanted->second != own[i]) return false;
    }
    return true;
  }

  /// Collects, backwards from the selection, the nodes of which only selected rows are needed.
  void find() {
    if (is_query(selection_.node->outputs[0])) return;
    axes_.emplace(selection_.node->inputs[0].index, selection_.axis);
    for (auto n = static_cast<std::size_t>(selection_.node - graph_.nodes().data()); n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      if (node.outputs.size() != 1) continue;
      const ValueId value = node.outputs[0];
      const auto wanted = axes_.find(value.index);
      if (wanted == axes_.end() || graph_.is_output(value) || is_query(value) ||
          !std::ranges::all_of(graph_.users(value),
                               [&](NodeId user) { return needs_selected(user); }))
        continue;
      const auto own = operands(node, wanted->second);
      if (!own || !agree(node, *own)) continue;
      for (std::size_t i = 0; i < own->size(); ++i)
        if ((*own)[i] >= 0) axes_.emplace(node.inputs[i].index, (*own)[i]);
      nodes_.push_back({&node, wanted->second, *own});
      mine_.insert(value.index);
    }
    std::ranges::reverse(nodes_);
  }

  /// Views of values that are computed for all rows stay there, as they cost nothing.
  void drop_views() {
    std::erase_if(nodes_, [&](const RowNode& each) {
      const Node* node = each.node;
      const bool is_view = node->op->kind == OpKind::kView && node->op->name != "Concat";
      return is_view && !is_mine(node->inputs[0]) && mine_.erase(node->outputs[0].index) > 0;
    });
  }

  Piece make() const {
    Piece piece;
    std::vector<bool> is_made(graph_.values().size(), false),
        is_read(graph_.values().size(), false);
    const auto read = [&](ValueId value) {
      if (is_made[value.position()] || is_read[value.position()]) return;
      is_read[value.position()] = true;
      piece.reads.push_back(value);
    };
    for (const auto& [node, axis, operands] : nodes_) {
      for (const ValueId input : node->inputs) read(input);
      is_made[node->outputs[0].position()] = true;
    }
    for (std::size_t i = 1; i < selection_.node->inputs.size(); ++i)
      read(selection_.node->inputs[i]);
    piece.writes = {selection_.node->outputs[0]};
    piece.emit = [this, reads = piece.reads](GraphBuilder& builder,
                                             std::span<const ValueId> mapped) {
      std::unordered_map<std::int32_t, ValueId> whole;
      for (std::size_t i = 0; i < reads.size(); ++i) whole.emplace(reads[i].index, mapped[i]);
      return std::vector{emit(builder, whole)};
    };
    return piece;
  }

  using Values = std::unordered_map<std::int32_t, ValueId>;

  /// The selected rows along `axis` of `value`.
  ValueId select(GraphBuilder& builder, ValueId value, int axis, const Values& whole) const {
    const GraphBuilder::OriginScope scope(builder, selection_.node->origins);
    if (!selection_.start) {
      ValueId indices = whole.at(selection_.node->inputs[1].index);
      if (builder.type(indices).shape.empty())
        indices = builder.add("Reshape", {indices}, {{"shape", Shape{Dim(1)}}});
      return builder.add("Gather", {value, indices}, {{"axis", std::int64_t{axis}}});
    }
    const auto d = dimension(axis);
    Shape shape = builder.type(value).shape;
    std::vector<Dim> starts(shape.size(), Dim(0));
    Ints steps(shape.size(), 1);
    starts[d] = *selection_.start;
    steps[d] = selection_.step;
    shape[d] = selection_.count;
    return builder.add("Slice", {value}, {{"starts", starts}, {"steps", steps}, {"shape", shape}});
  }

  ValueId emit(GraphBuilder& builder, const Values& whole) const {
    Values selected;
    const auto rows_of = [&](ValueId value, int axis) {
      const auto found = selected.find(value.index);
      if (found != selected.end()) return found->second;
      return selected.emplace(value.index, select(builder, whole.at(value.index), axis, whole))
          .first->second;
    };
    for (const auto& [node, axis, operands] : nodes_) {
      std::vector<ValueId> inputs;
      for (std::size_t i = 0; i < operands.size(); ++i)
        inputs.push_back(operands[i] >= 0 ? rows_of(node->inputs[i], operands[i])
                                          : whole.at(node->inputs[i].index));
      selected.emplace(node->outputs[0].index, add(builder, *node, axis, inputs));
    }
    const ValueId result = selected.at(selection_.node->inputs[0].index);
    const Shape& shape = graph_.type(selection_.node->outputs[0]).shape;
    if (builder.type(result).shape == shape) return result;
    const GraphBuilder::OriginScope scope(builder, selection_.node->origins);
    return builder.add("Reshape", {result}, {{"shape", shape}});
  }

  ValueId add(GraphBuilder& builder, const Node& node, int axis,
              const std::vector<ValueId>& inputs) const {
    if (node.op->name != "Attention")
      return add_packed(builder, graph_, node, {axis, axis}, inputs, dims_);
    const GraphBuilder::OriginScope scope(builder, node.origins);
    return builder.add(node.op->name, inputs, node.attrs);
  }

  const Graph& graph_;
  Selection selection_;
  TokenDims dims_;
  std::vector<RowNode> nodes_;                  // only selected rows are needed, in order
  std::unordered_set<std::int32_t> mine_;       // their results
  std::unordered_map<std::int32_t, int> axes_;  // dimension of rows in these and their operands
};

}  // namespace

Graph select_rows(const Graph& graph, Context& context) {
  Graph current = graph;
  // Selections that the pass adds stop at values with other readers or mixed rows: they cannot
  // move.
  for (std::size_t n = current.nodes().size(); n-- > 0;) {
    const Node& node = current.nodes()[n];
    const auto selection = selection_of(current, node);
    if (!selection) continue;
    RowSelector selector(current, *selection);
    const auto piece = selector.piece();
    if (!piece) continue;
    decide(context, selector.last(), node, true, "only the rows that are read are computed");
    current = rebuild(current, std::span(&*piece, 1));
    n = current.nodes().size();
  }
  return current;
}

}  // namespace sinter::fusion
