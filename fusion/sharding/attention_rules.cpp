// SPDX-License-Identifier: Apache-2.0
// Attention and layers with a state, by heads.
#include "fusion/sharding/body.h"
#include "fusion/sharding/strategies.h"
#include "ir/attention_inputs.h"
#include "ir/recurrence/linear_attention.h"

namespace sinter::fusion {

void add_attention(const SplitSite& site, std::vector<Strategy>& ways) {
  const Node& node = site.node;
  const ir::AttentionInputs which =
      ir::attention_inputs(node.attrs, node.inputs.size(), site.graph.type(node.inputs[1]).dtype);
  const std::size_t rank = site.out().size();
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    if (!site.divides(site.out(), d)) continue;
    Strategy way = site.strategy("heads", Split::along(d));
    // Keys and values of heads that share them are whole: every rank has a head that reads them.
    for (std::size_t i = 0; i < way.inputs.size(); ++i)
      if (i != which.bounds && i != which.tables) way.inputs[i] = site.aligned(i, d, rank);
    if (node.body) {
      std::vector<Split> splits{Split::along(d)};
      splits.insert(splits.end(), way.inputs.end() - static_cast<std::ptrdiff_t>(which.operands),
                    way.inputs.end());
      const auto body = body_of_rank(*node.body, splits, site.ranks);
      if (body == nullptr) continue;
      way.write = [&node, body](GraphBuilder& b, std::span<const ValueId> inputs) {
        return b.add_multi(node.op->name, {inputs.begin(), inputs.end()}, node.attrs, body);
      };
    }
    ways.push_back(std::move(way));
  }
}

void add_linear_attention(const SplitSite& site, std::vector<Strategy>& ways) {
  constexpr std::size_t kHeads = 2, kStateHeads = 1;
  const Node& node = site.node;
  const ir::LinearAttention layer = ir::linear_attention(node.attrs, site.graph.types(node.inputs));
  if (layer.heads() % site.parts != 0 || layer.out_heads() % site.parts != 0) return;
  Strategy way = site.strategy("heads", Split::along(kHeads));
  way.outputs[1] = Split::along(kStateHeads);
  // Consecutive heads share: a part of the one belongs to a part of the other, or to the only one.
  const std::int64_t counts[] = {layer.query_heads, layer.key_heads, layer.value_heads};
  for (std::size_t i = 0; i < std::size(counts); ++i) {
    if (counts[i] != 1 && counts[i] % site.parts != 0) return;
    way.inputs[i] = counts[i] == 1 ? kWhole : Split::along(kHeads);
  }
  for (const auto& input : {layer.inputs.decay, layer.inputs.beta, layer.inputs.erase})
    if (input) way.inputs[*input] = Split::along(kHeads);
  if (layer.inputs.state) way.inputs[*layer.inputs.state] = Split::along(kStateHeads);
  ways.push_back(std::move(way));
}

}  // namespace sinter::fusion
