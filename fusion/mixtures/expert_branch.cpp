// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/expert_branch.h"

#include <algorithm>

#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// The flags [..] that a SelectIndices selects, if it selects all that are true: their rows in
/// tiles, filled up with false, and before each tile the number of true ones.
std::optional<ValueId> selected_flags(const Graph& graph, const Node& select) {
  const auto behind = [&](ValueId value, std::string_view op) {
    const Node* node = producer_of(graph, value, op);
    return node != nullptr ? node->inputs[0] : ValueId();
  };
  const Node* scan = producer_of(graph, select.inputs[1], "Scan");
  if (scan == nullptr || scan->attrs.get_string("combine") != "sum" ||
      scan->attrs.get_int("exclusive") != 1 || scan->attrs.get_int("reverse") != 0)
    return std::nullopt;
  ValueId counts = scan->inputs[0];
  if (const ValueId narrow = behind(counts, "Cast"); narrow.valid()) counts = narrow;
  const Node* sum = producer_of(graph, counts, "ReduceSum");
  if (sum == nullptr || sum->attrs.get_ints("axes") != Ints{1} ||
      behind(sum->inputs[0], "Cast") != select.inputs[0])
    return std::nullopt;
  // As many as there are: the size is their sum, if it is not a number that somebody gave.
  const auto symbol = select.attrs.get_dims("count")[0].as_symbol();
  if (!symbol || std::ranges::none_of(graph.users(scan->inputs[0]), [&](NodeId id) {
        const Node& total = graph.node(id);
        if (total.op->name != "ReduceSum") return false;
        return std::ranges::any_of(graph.users(total.outputs[0]), [&](NodeId user) {
          const Node& extent = graph.node(user);
          return extent.op->name == "Extent" && extent.attrs.get_string("symbol") == *symbol;
        });
      }))
    return std::nullopt;
  // [tiles, tile] of [flags], filled up, of the flags.
  const Node* node = producer_of(graph, select.inputs[0], "Reshape");
  if (node == nullptr) return std::nullopt;
  ValueId flags = node->inputs[0];
  while (graph.type(flags).shape.size() == 1 && (node = graph.producer(flags)) != nullptr) {
    if (node->op->name == "Pad") {
      const auto& begins = node->attrs.get_dims("begins");
      if (begins[0] != Dim(0) || node->attrs.get_float("fill") != 0) return std::nullopt;
    } else if (node->op->name != "Reshape") {
      break;
    }
    flags = node->inputs[0];
  }
  return flags;
}

/// Without dimensions of 1.
Shape squeezed(const Shape& shape) {
  Shape result;
  for (const Dim& dim : shape)
    if (dim != Dim(1)) result.push_back(dim);
  return result;
}

}  // namespace

Selections selections(const Graph& graph) {
  Selections result;
  for (const Node& node : graph.nodes())
    if (node.op->name == "SelectIndices")
      if (const auto symbol = node.attrs.get_dims("count")[0].as_symbol())
        result.emplace(*symbol, &node);
  return result;
}

std::optional<ExpertBranch> find_branch(const Graph& graph, const Selections& selections,
                                        const Node& scatter, std::string& why) {
  if (scatter.op->name != "Scatter" || scatter.inputs.size() != 4) return std::nullopt;
  const Shape& rows = graph.type(scatter.inputs[1]).shape;
  const Shape& data = graph.type(scatter.outputs[0]).shape;
  if (rows.size() != 2 || data.size() != 2 || rows[1] != data[1]) return std::nullopt;
  const auto symbol = rows[0].as_symbol();
  const auto found = symbol ? selections.find(*symbol) : selections.end();
  if (found == selections.end()) return std::nullopt;
  const Node& select = *found->second;
  const std::string& combine = scatter.attrs.get_string("combine");
  const bool adds = combine == "sum" || combine == "add";
  if (!adds && combine != "none") return std::nullopt;
  const auto refuse = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  const auto flags = selected_flags(graph, select);
  if (!flags) return refuse("its rows are not all that a condition selects");
  ExpertBranch branch{.scatter = &scatter,
                      .select = &select,
                      .rows = scatter.inputs[1],
                      .selected = rows[0],
                      .tokens = data[0],
                      .elements = Elements(graph)};
  const Shape& flag_shape = graph.type(*flags).shape;
  const std::vector<Dim> at = branch.elements.bind(select.outputs[0], flag_shape);
  const auto flag = branch.elements.at(*flags, at);
  if (!flag || !flag->is_test || !flag->expert.is_constant() || flag->yes == 0 || flag->no != 0)
    return refuse("what selects its rows is not the choice of one expert");
  branch.choices = flag->choice->value;
  branch.expert = flag->expert.value();
  const Shape& choices = graph.type(branch.choices).shape;
  if (choices.empty() || choices.size() > 2 || choices[0] != branch.tokens ||
      (choices.size() == 2 && !choices[1].is_constant()))
    return refuse("the choices are no matrix of the tokens' experts");
  branch.chosen = choices.size() == 2 ? choices[1].value() : 1;
  branch.token = flag->choice->index[0];
  branch.slot = choices.size() == 2 ? flag->choice->index[1] : Dim(0);
  // Each flag is of another choice, and all choices have one.
  const Shape flat = squeezed(flag_shape), all = squeezed(choices);
  if (flat != all && flat != Shape(all.rbegin(), all.rend()))
    return refuse("there is not one condition for each choice");
  const auto is_coordinate = [&](const Dim& dim, const Dim& extent) {
    return extent == Dim(1) ? dim == Dim(0) : std::ranges::count(at, dim) == 1;
  };
  if (!is_coordinate(branch.token, choices[0]) || !is_coordinate(branch.slot, Dim(branch.chosen)) ||
      (branch.token == branch.slot && branch.token != Dim(0)))
    return refuse("there is not one condition for each choice");
  // Rows are added where their tokens are.
  const std::vector<Dim> index = branch.elements.symbols(rows);
  branch.elements.set_row(index[0]);
  const auto place_of = [&](std::size_t i) {
    const Shape& own = graph.type(scatter.inputs[i]).shape;
    std::vector<Dim> part(index.end() - std::ssize(own), index.end());
    for (std::size_t d = 0; d < own.size(); ++d)
      if (own[d] == Dim(1)) part[d] = Dim(0);
    return branch.elements.number_at(scatter.inputs[i], part);
  };
  if (place_of(2) != branch.token || place_of(3) != index[1])
    return refuse("its results do not go to the tokens that chose it");
  // An element that is replaced twice would keep one of both.
  if (!adds && branch.chosen != 1 && !sorted_experts(graph, branch.choices))
    return refuse("a token may choose an expert twice");
  return branch;
}

}  // namespace sinter::fusion
