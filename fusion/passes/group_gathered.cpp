// SPDX-License-Identifier: Apache-2.0
// Matmuls of rows by matrices that were gathered for them, or by all matrices of which most do not
// count: rows sorted by matrix.
#include <fmt/format.h>

#include "fusion/mixtures/dense_experts.h"
#include "fusion/mixtures/gathered_rows.h"
#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

Graph group_gathered(const Graph& graph, Context& context) {
  GatheredRows rows(graph);
  const Graph grouped = ir::rewrite(
      graph,
      [&](GraphBuilder& b, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        rows.visit(node, inputs);
        const DType type = old.type(node.outputs[0]).dtype;
        const Node* const gather = rows.find(node);
        if (gather != nullptr &&
            context.target.takes("GroupedMatMul", type, to_string(type), false) != nullptr) {
          decide(context, *gather, node, true,
                 fmt::format("a mixture: rows are sorted by which of {} matrices they choose",
                             old.type(gather->inputs[0]).shape[0].value()));
          return std::vector{rows.product(b, node)};
        }
        if (const auto sum = rows.sum(b, node)) return std::vector{*sum};
        rows.sort(b, node);
        return std::nullopt;
      });
  return without_idle_experts(grouped, context, Explains::kFound);
}

}  // namespace sinter::fusion
