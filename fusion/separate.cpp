#include "fusion/separate.h"

#include <algorithm>

#include "fusion/passes/passes.h"

namespace sinter::fusion {

std::optional<ir::Graph> separate(const ir::Graph& graph, std::span<const std::size_t> nodes) {
  bool separated = false;
  const auto visit =
      [&](ir::GraphBuilder& builder, const ir::Graph&, const ir::Node& node,
          std::span<const ir::ValueId> inputs) -> std::optional<std::vector<ir::ValueId>> {
    const auto index = static_cast<std::size_t>(&node - graph.nodes().data());
    if (std::find(nodes.begin(), nodes.end(), index) == nodes.end() || !node.body ||
        node.body->nodes().size() < 2)
      return std::nullopt;
    separated = true;
    return ir::inline_graph(builder, *node.body, inputs);
  };
  const ir::Graph bare = ir::rewrite(graph, visit);
  if (!separated) return std::nullopt;
  Context context;
  return wrap_singletons(bare, context);
}

}  // namespace sinter::fusion
