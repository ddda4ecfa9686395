#include "fusion/patterns/limits.h"

#include <algorithm>

#include "fusion/patterns/positions.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::GraphBuilder;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

bool is_plain_view(const Node& node) {
  return node.op->kind == ir::OpKind::kView && node.inputs.size() == 1 && node.op->name != "Pad";
}

ValueId add_limit_views(GraphBuilder& builder, const Graph& graph, ValueId value,
                        std::span<const NodeId> views) {
  for (const NodeId id : views)
    value = builder.add(graph.node(id).op->name, {value}, graph.node(id).attrs);
  return value;
}

/// What a comparison asks of its operands: left - right < bound, or the other way round.
struct Comparison {
  bool less = false, strict = false;
};
std::optional<Comparison> comparison(std::string_view op) {
  if (op == "Less") return Comparison{true, true};
  if (op == "LessOrEqual") return Comparison{true, false};
  if (op == "Greater") return Comparison{false, true};
  if (op == "GreaterOrEqual") return Comparison{false, false};
  return std::nullopt;
}

}  // namespace

std::optional<KeyLimits> limits_of(const Graph& graph, ValueId mask, std::span<const NodeId> views,
                                   const Dim& keys, bool negated) {
  if (graph.type(mask).dtype != DType::kBool || keys == Dim(1)) return std::nullopt;
  KeyLimits result;
  result.views.assign(views.begin(), views.end());
  const Node* test = graph.producer(mask);
  while (test != nullptr && is_plain_view(*test)) {
    result.views.insert(result.views.begin(), graph.value(mask).producer);
    mask = test->inputs[0];
    test = graph.producer(mask);
  }
  if (test == nullptr || !comparison(test->op->name)) return std::nullopt;
  result.shape = graph.type(mask).shape;

  GraphBuilder builder("views");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  builder.output(
      "y", add_limit_views(builder, graph, builder.input("x", graph.type(mask)), result.views));
  const Graph behind = builder.finish();
  const ir::Shape& shape = behind.type(behind.outputs()[0]).shape;
  if (shape.empty() || !(shape.back() == keys)) return std::nullopt;
  ir::Ranges ranges = graph.ranges();
  const auto index = ir::index_symbols(shape, ranges);
  const ir::TracedView traced = ir::trace_view(behind, behind.outputs()[0], index, ranges);
  if (traced.sources.size() != 1 || !traced.sources[0].guards.empty()) return std::nullopt;

  const std::string key = ir::index_symbol(static_cast<int>(shape.size()) - 1);
  for (const std::size_t side : {0, 1}) {
    const ValueId counted = test->inputs[side], other = test->inputs[1 - side];
    const auto at = [&](ValueId operand) {
      return operand_index(graph.type(operand).shape, traced.sources[0].index);
    };
    const auto number = number_at(graph, counted, at(counted), ranges);
    if (!number || !is_integer(graph.type(other).dtype)) continue;
    const Dim first = *number - Dim::symbol(key);
    const auto elsewhere = at(other);
    const bool depends = std::any_of(elsewhere.begin(), elsewhere.end(), [&](const Dim& dim) {
      const auto symbols = dim.symbols();
      return std::find(symbols.begin(), symbols.end(), key) != symbols.end();
    });
    if (!first.is_constant() || depends) continue;
    // True below the other side, or where a mask of what is hidden is false.
    Comparison seen = *comparison(test->op->name);
    if (side == 1) seen.less = !seen.less;
    if (negated) seen = {!seen.less, !seen.strict};
    if (!seen.less) continue;
    result.operand = other;
    result.more = (seen.strict ? 0 : 1) - first.value();
    return result;
  }
  return std::nullopt;
}

ValueId add_limits(GraphBuilder& builder, const Graph& graph, const KeyLimits& limits,
                   ValueId operand) {
  if (builder.type(operand).dtype != DType::kInt64)
    operand = builder.add("Cast", {operand}, {{"to", ir::Attr(DType::kInt64)}});
  if (limits.more != 0)
    operand = builder.add(
        "Add", {operand, builder.scalar(DType::kInt64, static_cast<double>(limits.more))});
  if (builder.type(operand).shape != limits.shape)
    operand = builder.add("Expand", {operand}, {{"shape", limits.shape}});
  const ValueId all = add_limit_views(builder, graph, operand, limits.views);
  ir::Shape shape = builder.type(all).shape;
  const std::size_t rank = shape.size();
  shape.back() = 1;
  return builder.add("Slice", {all},
                     {{"starts", std::vector<Dim>(rank, Dim(0))},
                      {"steps", std::vector<std::int64_t>(rank, 1)},
                      {"shape", shape}});
}

}  // namespace sinter::fusion
