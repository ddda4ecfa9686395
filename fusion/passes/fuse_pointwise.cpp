// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/regions/partition.h"

namespace sinter::fusion {

Graph fuse_pointwise(const Graph& graph, Context& context) {
  Partition partition(graph, context);
  std::vector<bool> needed(graph.values().size(), false);
  const auto need = [&](ValueId value) { needed[value.position()] = true; };
  for (ValueId output : graph.outputs()) need(output);

  // Backwards: a region starts at its stores, and a node that every reader has copied starts
  // none.
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const NodeId id{static_cast<std::int32_t>(n)};
    const Node& node = graph.node(id);
    if (partition.is_grouped(id)) continue;
    bool used = false;
    for (ValueId out : node.outputs) used = used || needed[out.position()];
    if (!used) continue;
    const OpKind kind = node.op->kind;
    const bool seed = kind == OpKind::kPointwise || kind == OpKind::kIndexed ||
                      (kind == OpKind::kView && node.op->name != "Reshape");
    if (!seed) {
      for (ValueId input : node.inputs) need(input);
      continue;
    }
    const ValueId steps = node.op->scatter() ? node.inputs[1] : node.outputs[0];
    Region region = partition.start(graph.type(steps).shape, {});
    region.add_result(id);
    partition.grow(region);
    for (ValueId leaf : region.leaves()) need(leaf);
    partition.commit(std::move(region));
  }
  return partition.finish();
}

}  // namespace sinter::fusion
