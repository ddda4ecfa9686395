// SPDX-License-Identifier: Apache-2.0
#include "fusion/narrow_dims.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/text/similar.h"

namespace sinter::fusion {
namespace {

std::vector<std::string> symbols_of(const Graph& graph) {
  std::vector<std::string> symbols;
  for (const auto& [symbol, range] : graph.ranges()) symbols.push_back(symbol);
  return symbols;
}

void check(const Graph& graph, const std::string& symbol, const Range& range) {
  const auto known = graph.ranges().find(symbol);
  if (known == graph.ranges().end())
    throw Error(ErrorCode::kUsage, fmt::format("the model has no symbolic dimension '{}'{}", symbol,
                                               ir::did_you_mean(symbol, symbols_of(graph))));
  if (range.min > range.max || range.min < known->second.min || range.max > known->second.max)
    throw Error(ErrorCode::kUsage,
                fmt::format("dimension '{}' is {} to {}, of which {}..{} is no part", symbol,
                            known->second.min, known->second.max, range.min, range.max));
}

/// A generated tensor that is a single known number, as a constant; otherwise `value`.
ValueId as_constant(GraphBuilder& builder, const ir::OpDef& op, const Attrs& attrs, ValueId value) {
  const TensorType type = builder.type(value);
  if (op.generate() == nullptr || ir::element_count(type.shape) != Dim(1)) return value;
  const std::vector<Dim> first(type.shape.size(), Dim(0));
  const Dim number = op.generate()->value(attrs, first);
  if (!number.is_constant()) return value;
  return builder.constant(
      Tensor::from_doubles(type.dtype, Ints(type.shape.size(), 1),
                           std::vector<double>{static_cast<double>(number.value())}));
}

using Values = std::map<std::string, Dim, std::less<>>;

/// `graph` and its bodies with `values` substituted for symbols; `left` are the ranges of the
/// remaining symbols.
Graph with_values(const Graph& graph, const Values& values, const Ranges& left) {
  const auto narrow = [&](Shape shape) {
    for (Dim& dim : shape) dim = ir::simplify(dim.substitute(values), left);
    return shape;
  };
  GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : left) builder.range(symbol, range);
  std::vector<ValueId> mapped(graph.values().size());
  const auto at = [&](ValueId id) -> ValueId& { return mapped[id.position()]; };
  for (const ValueId id : graph.inputs())
    at(id) =
        builder.input(graph.value(id).name, {graph.type(id).dtype, narrow(graph.type(id).shape)});
  for (std::size_t i = 0; i < mapped.size(); ++i)
    if (const Value& value = graph.values()[i]; value.constant)
      mapped[i] = builder.constant(value.constant, value.name);
  for (const Node& node : graph.nodes()) {
    if (node.op->kind == OpKind::kFused)
      throw Error(ErrorCode::kUsage, "dimensions of a graph that is fused cannot be changed");
    const GraphBuilder::OriginScope scope(builder, node.origins);
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(at(id));
    Attrs attrs = node.attrs;
    for (const auto& [name, value] : node.attrs.values())
      if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) attrs.set(name, narrow(*dims));
    std::shared_ptr<const Graph> body;
    if (node.body) body = std::make_shared<const Graph>(with_values(*node.body, values, left));
    const auto results = builder.add_multi(node.op->name, std::move(inputs), attrs, body);
    for (std::size_t i = 0; i < results.size(); ++i) {
      at(node.outputs[i]) = as_constant(builder, *node.op, attrs, results[i]);
      builder.name(results[i], graph.value(node.outputs[i]).name);
    }
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    builder.output(graph.output_names()[i], at(graph.outputs()[i]));
  for (const ir::State& state : graph.states()) builder.state(state);
  return builder.finish();
}

}  // namespace

Graph narrow_dims(const Graph& graph, const std::map<std::string, Range>& ranges) {
  Values values;
  Ranges left = graph.ranges();
  for (const auto& [symbol, range] : ranges) {
    check(graph, symbol, range);
    left.erase(symbol);
    if (range.min == range.max)
      values.emplace(symbol, Dim(range.min));
    else
      left.emplace(symbol, range);
  }
  return with_values(graph, values, left);
}

}  // namespace sinter::fusion
