#include <algorithm>

#include <fmt/format.h>

#include "fusion/passes/conv_as_matmul.h"
#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

using ir::GraphBuilder;
using ir::ValueId;

// A kernel's parameters are few: more tensors are joined in several steps.
constexpr std::size_t kMostJoined = 32;

ValueId join_in_steps(GraphBuilder& builder, const ir::Node& concat,
                      std::span<const ValueId> inputs) {
  std::vector<ValueId> parts(inputs.begin(), inputs.end());
  while (parts.size() > 1) {
    std::vector<ValueId> joined;
    for (std::size_t i = 0; i < parts.size(); i += kMostJoined) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kMostJoined, parts.size() - i));
      joined.push_back(count == 1 ? *first
                                  : builder.add("Concat", {first, first + count}, concat.attrs));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

/// True if the target has a convolution of its own for `node`, in one layout or the other.
bool has_conv(const Context& context, const ir::Graph& graph, const ir::Node& node) {
  const DType type = graph.type(node.outputs[0]).dtype;
  return (context.target.has_conv && type == DType::kFloat32) ||
         (context.target.conv_any_float && context.fuse && is_float(type));
}

bool has_attention(const TargetTraits& target, const ir::Graph& graph, const ir::Node& node) {
  std::vector<ir::TensorType> types;
  for (const ValueId input : node.inputs) types.push_back(graph.type(input));
  return attention_refusal(target, types).empty();
}

/// The product with float weights, which are made here.
std::vector<ValueId> dequantise(GraphBuilder& builder, Context& context, const ir::Graph& graph,
                                const ir::Node& node, std::span<const ValueId> inputs) {
  context.decisions.push_back(decision(
      node, node, false,
      fmt::format("this target has no product of {} with quantised weights: they are dequantised "
                  "at compile time",
                  to_string(graph.type(node.inputs[0]).dtype))));
  return node.op->composite().decompose(builder, node, inputs);
}

}  // namespace

ir::Graph decompose(const ir::Graph& graph, Context& context) {
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const ir::Graph& old, const ir::Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (node.op->kind == ir::OpKind::kComposite && context.fuse)
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "QuantMatMul" &&
            context.target.quantised_matmul.count(old.type(node.inputs[0]).dtype) == 0)
          return dequantise(builder, context, old, node, inputs);
        if (node.op->name == "Attention" && !has_attention(context.target, old, node))
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "Conv" && !has_conv(context, old, node))
          return std::vector{
              conv_as_matmul(builder, context.target, node, inputs, old.type(node.outputs[0]))};
        if (node.op->name == "MatMul")
          return std::vector{matrix_product(builder, context.target, inputs[0], inputs[1])};
        if (node.op->name == "Concat" && inputs.size() > kMostJoined)
          return std::vector{join_in_steps(builder, node, inputs)};
        return std::nullopt;
      });
}

}  // namespace sinter::fusion
