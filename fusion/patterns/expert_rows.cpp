// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/expert_rows.h"

#include <algorithm>

namespace sinter::fusion {

ExpertRows::ExpertRows(const Graph& graph)
    : graph_(graph), members_(graph.values().size()), inside_(graph.nodes().size()) {
  for (const Node& node : graph.nodes()) find_choices(node);
  if (mixtures_.empty()) return;
  for (const Node& node : graph.nodes()) visit(node);
}

std::optional<RowRole> ExpertRows::role(ValueId value) const {
  if (!member(value)) return std::nullopt;
  return member(value)->role;
}
ValueId ExpertRows::choices(ValueId value) const {
  return mixtures_[member(value)->mixture].choices;
}
std::int64_t ExpertRows::experts(ValueId value) const {
  return mixtures_[member(value)->mixture].experts;
}
bool ExpertRows::is(ValueId value, std::size_t mixture, RowRole role) const {
  return member(value) && member(value)->mixture == mixture && member(value)->role == role;
}

/// A GroupByIndex of a matrix's elements over all experts and one more.
void ExpertRows::find_choices(const Node& node) {
  if (node.op->name != "GroupByIndex") return;
  const Node* reshape = graph_.producer(node.inputs[0]);
  const Dim& extent = node.attrs.get_dims("extent")[0];
  if (reshape == nullptr || reshape->op->name != "Reshape" || !extent.is_constant()) return;
  const Shape& shape = graph_.type(reshape->inputs[0]).shape;
  if (shape.size() != 2 || !shape[1].is_constant() || shape[1].value() < 1) return;
  members_[node.inputs[0].position()] = {mixtures_.size(), RowRole::kChoices};
  inside_[position(*reshape)] = true;
  mixtures_.push_back({reshape->inputs[0], node.inputs[0], shape[0], shape[0] * shape[1],
                       shape[1].value(), extent.value() - 1});
}

/// Whether a dimension of the value counts the mixture's tokens or rows.
bool ExpertRows::has_tokens(ValueId value, const Mixture& mixture) const {
  const auto symbols = mixture.tokens.symbols();
  return std::ranges::any_of(graph_.type(value).shape, [&](const Dim& dim) {
    if (symbols.empty()) return dim == mixture.tokens || dim == mixture.rows;
    const auto own = dim.symbols();
    return std::ranges::any_of(
        own, [&](const auto& symbol) { return std::ranges::count(symbols, symbol) != 0; });
  });
}

void ExpertRows::visit(const Node& node) {
  for (const ValueId input : node.inputs) {
    if (!member(input)) continue;
    const std::size_t mixture = member(input)->mixture;
    if (node.op->name == "GroupByIndex") {
      members_[node.outputs[0].position()] = {mixture, RowRole::kOrder};
      members_[node.outputs[1].position()] = {mixture, RowRole::kOffsets};
      inside_[position(node)] = true;
      return;
    }
    bool ends = false;
    const auto role = result(node, mixture, ends);
    inside_[position(node)] = role || ends;
    if (role) members_[node.outputs[0].position()] = {mixture, *role};
    return;
  }
}

/// The role of the result. `ends`: there is none, as its rows are tokens' again.
std::optional<RowRole> ExpertRows::result(const Node& node, std::size_t mixture, bool& ends) const {
  const Mixture& m = mixtures_[mixture];
  const std::string& op = node.op->name;
  const auto at = [&](std::size_t i, RowRole role) { return is(node.inputs[i], mixture, role); };
  if (op == "LastByIndex" && at(0, RowRole::kOrder) && node.attrs.get_dims("extent")[0] == m.rows)
    return RowRole::kInverse;
  if (op == "Reshape" && at(0, RowRole::kInverse)) {
    const Shape& shape = graph_.type(node.outputs[0]).shape;
    if (shape == Shape{m.tokens, Dim(m.chosen)}) return RowRole::kInverse;
  }
  if (op == "Div" && at(0, RowRole::kOrder)) {
    const auto& divisor = graph_.value(node.inputs[1]).constant;
    if (divisor != nullptr && divisor->element_count() == 1 && divisor->at_int(0) == m.chosen)
      return RowRole::kTokens;
  }
  if (op == "Gather" && node.attrs.get_int("axis") == 0) {
    const ValueId data = node.inputs[0], rows = node.inputs[1];
    if (data == m.flat && is(rows, mixture, RowRole::kOrder)) return RowRole::kRows;
    if (is(rows, mixture, RowRole::kTokens) && !member(data) &&
        graph_.type(data).shape[0] == m.tokens)
      return RowRole::kRows;
    if (is(rows, mixture, RowRole::kRows) && !member(data) && !has_tokens(data, m))
      return RowRole::kRows;
    if (is(data, mixture, RowRole::kRows) && is(rows, mixture, RowRole::kInverse) &&
        graph_.type(rows).shape.size() == 2) {
      ends = true;
      return std::nullopt;
    }
  }
  if (op == "GroupedMatMul") {
    const bool fits = at(0, RowRole::kRows) && is(node.inputs.back(), mixture, RowRole::kOffsets) &&
                      std::none_of(node.inputs.begin() + 1, node.inputs.end() - 1,
                                   [&](ValueId input) { return member(input).has_value(); });
    if (fits) return RowRole::kRows;
  }
  if (is_row_wise(node, mixture)) return RowRole::kRows;
  return std::nullopt;
}

/// Pointwise, or within the rows of one operand.
bool ExpertRows::is_row_wise(const Node& node, std::size_t mixture) const {
  const Mixture& m = mixtures_[mixture];
  if (node.outputs.size() != 1) return false;
  const Shape& shape = graph_.type(node.outputs[0]).shape;
  if (shape.empty() || shape[0] != m.rows) return false;
  const auto is_rows = [&](ValueId input) {
    const Shape& own = graph_.type(input).shape;
    return is(input, mixture, RowRole::kRows) && !own.empty() && own[0] == m.rows;
  };
  const std::string& op = node.op->name;
  if (node.op->kind == OpKind::kPointwise)
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      if (member(input)) return is_rows(input) && graph_.type(input).shape.size() == shape.size();
      return !has_tokens(input, m);
    });
  if (!std::ranges::all_of(node.inputs, is_rows)) return false;
  if (op == "Slice") return node.attrs.get_dims("starts")[0] == Dim(0);
  if (op == "Transpose") return node.attrs.get_ints("perm")[0] == 0;
  if (op == "Concat") return node.attrs.get_int("axis") != 0;
  if (node.op->kind == OpKind::kReduce)
    return std::ranges::count(node.attrs.get_ints("axes"), 0) == 0;
  return op == "Reshape";
}

}  // namespace sinter::fusion
