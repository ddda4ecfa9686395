// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/regions/gate.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/partition.h"

namespace sinter::fusion {
namespace {

/// Leaves gates of a GEMM's columns to its kernel, which then stores half as much. That kernel has
/// parts of rows and cannot reduce them.
void leave_gates(const Graph& graph, const Context& context, Partition& partition) {
  if (!context.target.gemm_kernels) return;
  for (const Node& node : graph.nodes())
    if ((is_kind(node, "matmul") || is_kind(node, "grouped_matmul")) &&
        has_gemm_kernel(context.target, node))
      if (const auto gate = gate_of(graph, node.outputs[0]))
        partition.leave(*gate, "'" + describe(graph.node(*gate)) +
                                   "' joins halves of the columns of '" + describe(node) +
                                   "', whose kernel may do so");
}

}  // namespace

Graph fuse_reductions(const Graph& graph, Context& context) {
  Partition partition(graph, context);
  leave_gates(graph, context, partition);
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
