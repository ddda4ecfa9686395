// SPDX-License-Identifier: Apache-2.0
// One graph for several devices: see fusion/sharding/README.md.
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "fusion/sharding/choose.h"
#include "fusion/sharding/rank_writer.h"
#include "fusion/sharding/split_projections.h"
#include "ir/ranks/ranks.h"

namespace sinter::fusion {
namespace {

std::string_view collective_of(Split from, Split to) {
  if (from == kPartial) return to == kWhole ? "all reduce" : "reduce scatter";
  return to == kWhole ? "all gather" : "all to all";
}

/// Worth a row of its own: products, attention and the like, and what a split table or state is.
bool is_reported(const Node& node, const Strategy& way) {
  return node.op->kind == OpKind::kLibrary ||
         (way.inputs.size() > 1 && way.inputs[0].is_part() && node.op->kind == OpKind::kIndexed);
}

ShardingReport report_of(const Graph& graph, const ShardingChoice& choice, Ranks ranks,
                         const RankWriter& writer, const ShardingCosts& costs) {
  ShardingReport report;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const Strategy& way = choice.ways[n];
    const Strategy alone = strategies(graph, node, {})[0];
    const ShardedNode row{.node = describe(node),
                          .origins = node.origins,
                          .split = std::string(way.name),
                          .bytes = costs.bytes(node, alone),
                          .rank_bytes = costs.bytes(node, way),
                          .seconds = costs.seconds(node, alone),
                          .rank_seconds = costs.seconds(node, way)};
    report.seconds += row.seconds;
    report.rank_seconds += row.rank_seconds;
    if (is_reported(node, way)) report.nodes.push_back(row);
  }
  for (const RankWriter::Change& change : writer.changes()) {
    const Node* producer = graph.producer(change.value);
    const double seconds = costs.conversion(change.value, change.from, change.to);
    report.collective_seconds += seconds;
    report.nodes.push_back({.node = producer ? describe(*producer) : graph.value(change.value).name,
                            .origins = producer ? producer->origins : std::vector<std::string>(),
                            .split = std::string(collective_of(change.from, change.to)),
                            .rank_bytes = costs.bytes(change.value, kWhole),
                            .rank_seconds = seconds,
                            .is_collective = true});
  }
  report.rank_seconds += report.collective_seconds;
  for (std::size_t s = 0; s < graph.states().size(); ++s) {
    const ir::State& state = graph.states()[s];
    if (const Split split = choice.state_splits[s]; split.is_part())
      report.states.push_back(
          {graph.value(graph.inputs()[static_cast<std::size_t>(state.input)]).name,
           graph.output_names()[static_cast<std::size_t>(state.output)], split.axis,
           split.is_shared ? ranks.shared : ranks.count});
  }
  return report;
}

/// Bytes of the constants that ranks read: a part, if no node reads another.
void count_weights(const Graph& graph, const ShardingChoice& choice, const ShardingCosts& costs,
                   ShardingReport& report) {
  std::vector<double> held(graph.values().size(), 0);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (std::size_t i = 0; i < graph.nodes()[n].inputs.size(); ++i) {
      const ValueId input = graph.nodes()[n].inputs[i];
      if (!graph.is_constant(input)) continue;
      double& bytes = held[input.position()];
      bytes = std::max(bytes, costs.bytes(input, choice.ways[n].inputs[i]));
    }
  for (std::size_t v = 0; v < held.size(); ++v) {
    if (held[v] == 0) continue;
    report.rank_weight_bytes += held[v];
    report.weight_bytes += costs.bytes(ValueId{static_cast<std::int32_t>(v)}, kWhole);
  }
}

Graph written(const Graph& graph, const ShardingChoice& choice, RankWriter& writer,
              GraphBuilder& builder, Ranks ranks) {
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  builder.range(std::string(ir::kRankSymbol), {0, ranks.count - 1, nullptr});
  std::vector<Split> inputs(graph.inputs().size()), outputs(graph.outputs().size());
  for (std::size_t s = 0; s < graph.states().size(); ++s) {
    inputs[static_cast<std::size_t>(graph.states()[s].input)] = choice.state_splits[s];
    outputs[static_cast<std::size_t>(graph.states()[s].output)] = choice.state_splits[s];
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    writer.give(graph.inputs()[i], inputs[i],
                builder.input(input.name, part_of(input.type, inputs[i], ranks)));
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    writer.add(graph.nodes()[n], choice.ways[n]);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(graph.output_names()[i], writer.get(graph.outputs()[i], outputs[i]));
  for (const ir::State& state : graph.states()) builder.state(state);
  return builder.finish();
}

/// Heads of keys and values that are fewer than the ranks, which share them; 0: none.
std::int64_t shared_heads(const Graph& graph, std::int64_t ranks) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "Attention") continue;
    const Shape &q = graph.type(node.inputs[0]).shape, &k = graph.type(node.inputs[1]).shape;
    for (std::size_t d = 0; d + 3 < q.size() && q.size() == k.size(); ++d) {
      if (!k[d].is_constant() || q[d] != k[d] || k[d + 1] != Dim(1)) continue;
      const std::int64_t heads = k[d].value();
      if (heads > 1 && heads < ranks && ranks % heads == 0 &&
          part_of(q[d + 1], ranks / heads).has_value())
        return heads;
    }
  }
  return 0;
}

bool uses_symbol(const Graph& graph, std::string_view symbol) {
  if (graph.ranges().contains(symbol)) return true;
  for (const Value& value : graph.values())
    for (const Dim& dim : value.type.shape)
      if (const auto symbols = dim.symbols(); std::ranges::find(symbols, symbol) != symbols.end())
        return true;
  return false;
}

}  // namespace

Graph shard(const Graph& merged, Context& context) {
  if (context.sharding.ranks <= 1) return merged;
  if (uses_symbol(merged, ir::kRankSymbol))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("--tensor-parallel: the model has a dimension named '{}', as the "
                            "number of a device is: rename it",
                            ir::kRankSymbol));
  const Graph graph = with_split_projections(merged);
  const Ranks ranks{context.sharding.ranks, shared_heads(graph, context.sharding.ranks)};
  const ShardingCosts costs(graph, context.sharding, ranks);
  const ShardingChoice choice = choose_splits(graph, ranks, costs);
  GraphBuilder builder(graph.name());
  RankWriter writer(graph, builder, ranks, &costs);
  const Graph result = written(graph, choice, writer, builder, ranks);
  context.sharded = report_of(graph, choice, ranks, writer, costs);
  count_weights(graph, choice, costs, context.sharded);
  return result;
}

}  // namespace sinter::fusion
