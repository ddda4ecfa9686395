// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/body.h"

#include <algorithm>

#include "fusion/sharding/rank_writer.h"
#include "ir/ranks/ranks.h"

namespace sinter::fusion {
namespace {

/// The way of `node` that fits how its inputs are split; null: none.
const Strategy* fitting(const Node& node, const std::vector<Strategy>& ways,
                        const std::vector<Split>& splits) {
  const auto is_whole = [&](ValueId input) { return splits[input.position()] == kWhole; };
  if (std::ranges::all_of(node.inputs, is_whole)) return &ways[0];
  for (const Strategy& way : std::span(ways).subspan(1)) {
    bool fits = way.outputs[0].is_part();
    for (std::size_t i = 0; fits && i < way.inputs.size(); ++i) {
      const Split has = splits[node.inputs[i].position()], wants = way.inputs[i];
      fits = has == wants || (has == kWhole && wants.is_part());
    }
    if (fits) return &way;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const Graph> body_of_rank(const Graph& body, std::span<const Split> inputs,
                                          Ranks ranks) {
  GraphBuilder builder(body.name());
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  builder.range(std::string(ir::kRankSymbol), {0, ranks.count - 1, nullptr});
  RankWriter writer(body, builder, ranks, nullptr);
  std::vector<Split> splits(body.values().size());  // constants are whole
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueId input = body.inputs()[i];
    splits[input.position()] = inputs[i];
    writer.give(input, inputs[i],
                builder.input(body.value(input).name, part_of(body.type(input), inputs[i], ranks)));
  }
  for (const Node& node : body.nodes()) {
    const std::vector<Strategy> ways = strategies(body, node, ranks);
    const Strategy* way = fitting(node, ways, splits);
    if (way == nullptr) return nullptr;
    writer.add(node, *way);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      splits[node.outputs[i].position()] = way->outputs[i];
  }
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const ValueId output = body.outputs()[i];
    const Split split = splits[output.position()];
    if (split == kPartial || (i == 0 && split != inputs[0])) return nullptr;
    builder.output(body.output_names()[i], writer.get(output, split));
  }
  return std::make_shared<const Graph>(builder.finish());
}

}  // namespace sinter::fusion
