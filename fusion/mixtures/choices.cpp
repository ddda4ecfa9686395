// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/choices.h"

#include <limits>
#include <vector>

#include "fusion/mixtures/elements.h"
#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

ValueId behind(const Graph& graph, ValueId value, std::string_view op) {
  const Node* node = producer_of(graph, value, op);
  return node != nullptr ? node->inputs[0] : ValueId();
}

bool reduces(const Node& node, std::int64_t axis, bool keeps) {
  return node.attrs.get_ints("axes") == Ints{axis} &&
         (node.attrs.get_int("keepdims") != 0) == keeps;
}

/// The scores whose first greatest, or NaN, has the index: the least of the indices of such ones,
/// and of the number behind the last.
ValueId first_greatest(const Graph& graph, ValueId index) {
  const Node* cast = producer_of(graph, index, "Cast");
  const Node* least = producer_of(graph, cast != nullptr ? cast->inputs[0] : index, "ReduceMin");
  if (least == nullptr) return {};
  const auto axis = std::ssize(graph.type(least->inputs[0]).shape) - 1;
  const Node* where = producer_of(graph, least->inputs[0], "Where");
  const Node* either = where != nullptr ? producer_of(graph, where->inputs[0], "Or") : nullptr;
  const Node* equal = either != nullptr ? producer_of(graph, either->inputs[0], "Equal") : nullptr;
  if (equal == nullptr || !reduces(*least, axis, true)) return {};
  const ValueId scores = equal->inputs[0];
  const Node* most = producer_of(graph, equal->inputs[1], "ReduceMax");
  const Node* iota = producer_of(graph, where->inputs[1], "Iota");
  const bool fits = behind(graph, either->inputs[1], "IsNan") == scores && most != nullptr &&
                    most->inputs[0] == scores && reduces(*most, axis, true) && iota != nullptr &&
                    iota->attrs.get_int("axis") == axis;
  return fits ? scores : ValueId();
}

/// Marks [tokens, groups] that decide a condition [tokens, experts]; `is_inverted`: it is true
/// where there is none.
struct Marks {
  const Node* scatter = nullptr;
  std::int64_t groups = 0;
  bool is_inverted = false;
};
std::optional<Marks> marks_behind(const Graph& graph, ValueId condition, std::int64_t experts) {
  Ranges ranges = graph.ranges();
  const std::vector<Dim> at = ir::index_symbols(graph.type(condition).shape, ranges);
  std::vector<Dim> index = at;
  Marks marks;
  for (ValueId value = condition;;) {
    auto traced = ir::trace_to_source(graph, value, index, ranges);
    const Node* node = traced ? graph.producer(traced->source) : nullptr;
    if (node == nullptr) return std::nullopt;
    index = std::move(traced->index);
    if (node->op->name == "Scatter") {
      const Shape& shape = graph.type(node->outputs[0]).shape;
      if (shape.size() != 2 || !shape[1].is_constant() || experts % shape[1].value() != 0)
        return std::nullopt;
      marks.scatter = node;
      marks.groups = shape[1].value();
      const Dim group = ir::floor_div(at[1], Dim(experts / marks.groups), ranges);
      const bool fits = index == std::vector<Dim>{at[0], group} && marks_indices(graph, *node);
      return fits ? std::optional(marks) : std::nullopt;
    }
    if (node->op->name == "Not" ||
        (node->op->name == "Equal" && splat_value(graph, node->inputs[1]) == 0))
      marks.is_inverted = !marks.is_inverted;
    else if (node->op->name != "Cast")
      return std::nullopt;
    value = node->inputs[0];
    if (graph.type(value).shape.size() != index.size()) return std::nullopt;
  }
}

}  // namespace

bool marks_indices(const Graph& graph, const Node& scatter) {
  if (scatter.inputs.size() != 4 || scatter.attrs.get_string("combine") != "none") return false;
  Elements elements(graph);
  const std::vector<Dim> index = elements.symbols(graph.type(scatter.inputs[3]).shape);
  if (index.size() != 2 || graph.type(scatter.outputs[0]).shape.size() != 2) return false;
  const auto is_all = [&](ValueId value, double number) {
    const auto source =
        elements.source(value, std::vector<Dim>(graph.type(value).shape.size(), Dim(0)));
    return source && splat_value(graph, source->value) == number;
  };
  const Shape& tokens = graph.type(scatter.inputs[2]).shape;
  if (tokens.size() != 2 || !is_all(scatter.inputs[0], 0) || !is_all(scatter.inputs[1], 1))
    return false;
  const std::vector<Dim> row{index[0], tokens[1] == Dim(1) ? Dim(0) : index[1]};
  return elements.number_at(scatter.inputs[2], row) == index[0];
}

std::optional<Greatest> find_greatest(const Graph& graph, ValueId indices) {
  const Shape& shape = graph.type(indices).shape;
  if (const ValueId scores = first_greatest(graph, indices); scores.valid())
    return Greatest{scores, 1};
  const Node* sort = producer_of(graph, indices, "ArgSort");
  if (sort == nullptr || sort->attrs.get_int("descending") == 0 || !shape.back().is_constant())
    return std::nullopt;
  if (sort->attrs.get_int("axis") != std::ssize(shape) - 1) return std::nullopt;
  return Greatest{sort->inputs[0], shape.back().value()};
}

bool takes_at(const Graph& graph, const Node& take, ValueId indices) {
  const Shape& shape = graph.type(indices).shape;
  if (take.op->name != "Take" || take.inputs.size() != shape.size() + 1 ||
      take.inputs.back() != indices || graph.type(take.outputs[0]).shape != shape)
    return false;
  Ranges ranges = graph.ranges();
  const std::vector<Dim> index = ir::index_symbols(shape, ranges);
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    const ValueId own = take.inputs[d + 1];
    const Shape& from = graph.type(own).shape;
    if (from.size() != shape.size() || from[d] != shape[d]) return false;
    std::vector<Dim> at = index;
    for (std::size_t i = 0; i < at.size(); ++i)
      if (from[i] == Dim(1)) at[i] = Dim(0);
    const auto number = ir::index_of_value(graph, own, at, ranges);
    if (!number || *number != at[d]) return false;
  }
  return true;
}

std::optional<ExpertGroups> find_expert_groups(const Graph& graph, ValueId masked) {
  const Node* where = producer_of(graph, masked, "Where");
  const Shape& all = graph.type(masked).shape;
  if (where == nullptr || all.size() != 2 || !all[1].is_constant() ||
      graph.type(where->inputs[0]).shape != all)
    return std::nullopt;
  const std::int64_t experts = all[1].value();
  const auto marks = marks_behind(graph, where->inputs[0], experts);
  if (!marks) return std::nullopt;
  const auto outside = splat_value(graph, where->inputs[marks->is_inverted ? 1 : 2]);
  ExpertGroups result{.scores = where->inputs[marks->is_inverted ? 2 : 1], .groups = marks->groups};
  result.zero_outside = outside == 0;
  if (!outside || (!result.zero_outside && *outside != -std::numeric_limits<double>::infinity()))
    return std::nullopt;
  const auto kept = find_greatest(graph, marks->scatter->inputs[3]);
  const Node* total = kept ? graph.producer(kept->scores) : nullptr;
  if (total == nullptr || graph.type(kept->scores).shape != Shape{all[0], Dim(result.groups)} ||
      graph.type(result.scores).shape != all)
    return std::nullopt;
  result.kept = kept->count;
  if ((total->op->name != "ReduceSum" && total->op->name != "ReduceMax") ||
      graph.type(total->inputs[0]).shape.size() != 3 || !reduces(*total, 2, false))
    return std::nullopt;
  // The sum of the greatest of each group, or the greatest.
  ValueId grouped = total->inputs[0];
  result.best = 1;
  if (total->op->name == "ReduceSum") {
    const Node* take = graph.producer(grouped);
    const auto best = take != nullptr && take->op->name == "Take"
                          ? find_greatest(graph, take->inputs.back())
                          : std::nullopt;
    if (!best || best->scores != take->inputs[0] || !takes_at(graph, *take, take->inputs.back()))
      return std::nullopt;
    result.best = best->count;
    grouped = best->scores;
  }
  if (graph.type(grouped).shape != Shape{all[0], Dim(result.groups), Dim(experts / result.groups)})
    return std::nullopt;
  while (const Node* view = producer_of(graph, grouped, "Reshape")) {
    if (grouped == result.scores) break;
    grouped = view->inputs[0];
  }
  return grouped == result.scores ? std::optional(result) : std::nullopt;
}

}  // namespace sinter::fusion
