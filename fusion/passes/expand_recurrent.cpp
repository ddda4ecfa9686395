#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// The type that a float32 layer is going to have.
DType lowered(const Context& context, DType type) {
  if (type != DType::kFloat32) return type;
  if (context.precision == Precision::kFloat16) return DType::kFloat16;
  if (context.precision == Precision::kBFloat16) return DType::kBFloat16;
  return type;
}

/// Why the target has no kernel for the layer; empty if it has one.
std::string refusal(const Context& context, const Graph& graph, const Node& node) {
  const TargetTraits& target = context.target;
  if (!context.fuse) return "unfused each operator is a kernel";
  if (target.recurrent_types.empty()) return "this target has no kernel for recurrent layers";
  if (const std::string& special = node.attrs.get_string("special"); !special.empty())
    return special;
  const DType type = lowered(context, graph.type(node.inputs[0]).dtype);
  if (!target.recurrent_types.contains(type))
    return fmt::format("this target's kernel for recurrent layers does not take {}{}",
                       to_string(type),
                       type == DType::kFloat32 ? "; --precision fp16 or bf16 gives it one" : "");
  const Dim& units = graph.type(node.inputs[1]).shape.back();
  if (!units.is_constant()) return "how many units it has is known only when it runs";
  if (units.value() > target.recurrent_units)
    return fmt::format("it has {} units, and {} are the most whose weights stay on chip",
                       units.value(), target.recurrent_units);
  return "";
}

}  // namespace

Graph expand_recurrent(const Graph& graph, Context& context) {
  return ir::rewrite(graph,
                     [&](GraphBuilder& builder, const Graph& old, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                       if (node.op->name != "Recurrent") return std::nullopt;
                       const std::string no = refusal(context, old, node);
                       if (no.empty()) return std::nullopt;
                       decide(context, node, node, false, no + ": it is a loop");
                       return node.op->composite().decompose(builder, node, inputs);
                     });
}

}  // namespace sinter::fusion
