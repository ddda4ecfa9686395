// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/graph_checks.h"

namespace sinter::ir {
namespace {

std::vector<ValueId> map_all(std::span<const ValueId> ids, const std::vector<ValueId>& mapped) {
  std::vector<ValueId> result;
  result.reserve(ids.size());
  for (const ValueId id : ids) result.push_back(mapped[id.position()]);
  return result;
}

void map_constants(GraphBuilder& builder, const Graph& graph, std::vector<ValueId>& mapped) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.constant) mapped[i] = builder.constant(value.constant, value.name);
  }
}

void map_outputs(GraphBuilder& builder, const Graph& graph, const Node& node,
                 const std::vector<ValueId>& results, std::vector<ValueId>& mapped) {
  if (results.size() != node.outputs.size())
    throw Error(ErrorCode::kInternal,
                fmt::format("{}: replaced by {} values, but has {} outputs",
                            describe(*node.op, node.origins), results.size(), node.outputs.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValueId old = node.outputs[i];
    mapped[old.position()] = results[i];
    builder.name(results[i], graph.value(old).name);
  }
}

}  // namespace

Graph rewrite(const Graph& graph, const RewriteVisit& visit) {
  GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ValueId> mapped(graph.values().size());
  for (const ValueId id : graph.inputs())
    mapped[id.position()] = builder.input(graph.value(id).name, graph.type(id));
  map_constants(builder, graph, mapped);
  for (const Node& node : graph.nodes()) {
    const GraphBuilder::OriginScope scope(builder, node.origins);
    const std::vector<ValueId> inputs = map_all(node.inputs, mapped);
    auto results = visit(builder, graph, node, inputs);
    if (!results) results = builder.add_multi(node.op->name, inputs, node.attrs, node.body);
    map_outputs(builder, graph, node, *results, mapped);
  }
  const auto outputs = map_all(graph.outputs(), mapped);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorType& before = graph.type(graph.outputs()[i]);
    if (!(builder.type(outputs[i]) == before))
      throw Error(
          ErrorCode::kInternal,
          fmt::format("output '{}' was {}, but has been rewritten to {}", graph.output_names()[i],
                      to_string(before), to_string(builder.type(outputs[i]))));
    builder.output(graph.output_names()[i], outputs[i]);
  }
  for (const State& state : graph.states()) builder.state(state);
  return builder.finish();
}

std::vector<ValueId> inline_graph(GraphBuilder& builder, const Graph& body,
                                  std::span<const ValueId> inputs) {
  return inline_graph(builder, body, inputs, body.outputs());
}

std::vector<ValueId> inline_graph(GraphBuilder& builder, const Graph& body,
                                  std::span<const ValueId> inputs,
                                  std::span<const ValueId> values) {
  if (inputs.size() != body.inputs().size())
    throw Error(ErrorCode::kInternal,
                fmt::format("graph '{}' has {} inputs, but {} values are given", body.name(),
                            body.inputs().size(), inputs.size()));
  std::vector<ValueId> mapped(body.values().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) mapped[body.inputs()[i].position()] = inputs[i];
  map_constants(builder, body, mapped);
  for (const Node& node : body.nodes()) {
    std::optional<GraphBuilder::OriginScope> scope;
    if (!node.origins.empty()) scope.emplace(builder, node.origins);
    const auto results =
        builder.add_multi(node.op->name, map_all(node.inputs, mapped), node.attrs, node.body);
    map_outputs(builder, body, node, results, mapped);
  }
  return map_all(values, mapped);
}

}  // namespace sinter::ir
