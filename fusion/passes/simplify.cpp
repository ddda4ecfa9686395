// SPDX-License-Identifier: Apache-2.0
#include "fusion/passes/passes.h"
#include "fusion/passes/simplify_rules.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

const Node* Site::input_node(std::size_t i, std::string_view op) const {
  const Node* producer = builder.producer(inputs[i]);
  return producer != nullptr && producer->op->name == op ? producer : nullptr;
}

std::optional<double> Site::constant(std::size_t i) const {
  return splat_value(builder, inputs[i]);
}

ValueId Site::fitted(ValueId value) const {
  if (builder.type(value).shape == type.shape) return value;
  return builder.add("Expand", {value}, {{"shape", type.shape}});
}

Graph simplify(const Graph& graph, Context&) {
  // Each round may uncover more; models converge in two or three.
  constexpr int kMaxRounds = 16;
  Graph current = graph;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    current = ir::rewrite(
        current,
        [&](ir::GraphBuilder& builder, const ir::Graph& old, const ir::Node& node,
            std::span<const ir::ValueId> inputs) -> std::optional<std::vector<ir::ValueId>> {
          const ir::OpKind kind = node.op->kind;
          if (node.body || node.outputs.size() != 1) return std::nullopt;
          const Site site{builder, node, inputs, old.type(node.outputs[0])};
          const auto rules = kind == OpKind::kPointwise ? pointwise_rules() : view_rules();
          for (const SimplifyRule& rule : rules) {
            if (const auto value = rule.apply(site)) {
              changed = true;
              return std::vector{*value};
            }
          }
          return std::nullopt;
        });
    if (!changed) break;
  }
  return current;
}

}  // namespace sinter::fusion
