#include "fusion/passes/passes.h"
#include "fusion/regions/partition.h"

namespace sinter::fusion {

Graph fuse_reductions(const Graph& graph, Context& context) {
  Partition partition(graph, context);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const NodeId id{static_cast<std::int32_t>(n)};
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::kReduce || partition.is_grouped(id)) continue;
    Region region = partition.start(graph.type(node.inputs[0]).shape, node.attrs.get_ints("axes"));
    region.add_result(id);
    partition.grow(region);
    partition.fold_stores(region);
    partition.commit(std::move(region));
  }
  return partition.finish();
}

}  // namespace sinter::fusion
