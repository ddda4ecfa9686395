#include "fusion/passes/conv_as_matmul.h"
#include "fusion/passes/passes.h"

namespace sinter::fusion {

ir::Graph decompose(const ir::Graph& graph, Context& context) {
  return ir::rewrite(
      graph,
      [&](ir::GraphBuilder& builder, const ir::Graph& old, const ir::Node& node,
          std::span<const ir::ValueId> inputs) -> std::optional<std::vector<ir::ValueId>> {
        if (node.op->kind == ir::OpKind::kComposite && context.fuse)
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "Conv" && !context.target.has_conv)
          return std::vector{conv_as_matmul(builder, node, inputs, old.type(node.outputs[0]))};
        return std::nullopt;
      });
}

}  // namespace sinter::fusion
