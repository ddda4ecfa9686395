#include "fusion/quantize/last_layers.h"

#include <algorithm>
#include <vector>

namespace sinter::fusion {

std::set<std::size_t> last_layers(const ir::Graph& graph, const std::set<std::size_t>& layers) {
  const auto& nodes = graph.nodes();
  std::vector<bool> behind(graph.values().size()), in_front(graph.values().size());
  const auto any = [](const std::vector<bool>& marked, const std::vector<ir::ValueId>& values) {
    return std::any_of(values.begin(), values.end(), [&](ir::ValueId value) {
      return marked[static_cast<std::size_t>(value.index)];
    });
  };
  const auto mark = [](std::vector<bool>& marked, const std::vector<ir::ValueId>& values) {
    for (const ir::ValueId value : values) marked[static_cast<std::size_t>(value.index)] = true;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (layers.contains(i) || any(behind, nodes[i].inputs)) mark(behind, nodes[i].outputs);
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (layers.contains(i) || any(in_front, nodes[i].outputs)) mark(in_front, nodes[i].inputs);
  std::set<std::size_t> result;
  for (const std::size_t layer : layers)
    if (any(behind, nodes[layer].inputs) && !any(in_front, nodes[layer].outputs))
      result.insert(layer);
  return result;
}

}  // namespace sinter::fusion
