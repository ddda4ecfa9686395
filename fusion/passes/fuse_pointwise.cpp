#include "fusion/passes/passes.h"
#include "fusion/regions/partition.h"

namespace sinter::fusion {

ir::Graph fuse_pointwise(const ir::Graph& graph, Context& context) {
  using ir::OpKind;
  Partition partition(graph, context);
  std::vector<bool> needed(graph.values().size(), false);
  const auto need = [&](ir::ValueId value) {
    needed[static_cast<std::size_t>(value.index)] = true;
  };
  for (ir::ValueId output : graph.outputs()) need(output);

  // From the last node to the first: a region starts at what it stores, and what every reader has
  // taken a copy of is never started.
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const ir::NodeId id{static_cast<std::int32_t>(n)};
    const ir::Node& node = graph.node(id);
    if (partition.is_grouped(id)) continue;
    bool used = false;
    for (ir::ValueId out : node.outputs) used = used || needed[static_cast<std::size_t>(out.index)];
    if (!used) continue;
    const OpKind kind = node.op->kind;
    const bool seed = kind == OpKind::kPointwise || kind == OpKind::kIndexed ||
                      (kind == OpKind::kView && node.op->name != "Reshape");
    if (!seed) {
      for (ir::ValueId input : node.inputs) need(input);
      continue;
    }
    const ir::ValueId steps = node.op->scatter() ? node.inputs[1] : node.outputs[0];
    Region region = partition.start(graph.type(steps).shape, {});
    region.add_result(id);
    partition.grow(region);
    for (ir::ValueId leaf : region.leaves()) need(leaf);
    partition.commit(std::move(region));
  }
  return partition.finish();
}

}  // namespace sinter::fusion
