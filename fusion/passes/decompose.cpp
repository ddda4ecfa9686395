#include <algorithm>
#include <cmath>
#include <map>

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

/// Why the target has no product with these quantized weights; empty if it has one.
std::string quantized_refusal(const TargetTraits& target, const ir::Graph& graph,
                              const ir::Node& node) {
  const ir::TensorType& x = graph.type(node.inputs[0]);
  if (target.quantized_matmul.count(x.dtype) == 0)
    return fmt::format("this target has no product of {} with quantized weights",
                       to_string(x.dtype));
  const ir::Dim& columns = graph.type(node.inputs[1]).shape[0];
  if (columns.is_constant() && columns.value() < target.quantized_least_columns)
    return fmt::format("this target's products with quantized weights have {} columns or more",
                       target.quantized_least_columns);
  const std::int64_t group = node.attrs.get_int("group");
  const bool all = group == 0 || (x.shape.back().is_constant() && group >= x.shape.back().value());
  if (!all && group % target.quantized_group != 0)
    return fmt::format("this target's groups are multiples of {}, not {}", target.quantized_group,
                       group);
  constexpr double kLargestHalf = 65504;
  if (target.quantized_zeros_in_type && x.dtype == DType::kFloat16 && node.inputs.size() > 3)
    if (const ir::Tensor* zeros = graph.value(node.inputs[3]).constant.get())
      for (const double zero : zeros->to_doubles())
        if (!(std::abs(zero) <= kLargestHalf)) return "a zero point is beyond f16";
  return "";
}

/// The product with float weights, which are made here.
std::vector<ValueId> dequantize(GraphBuilder& builder, Context& context, const ir::Node& node,
                                std::span<const ValueId> inputs, const std::string& refusal) {
  context.decisions.push_back(
      decision(node, node, false, refusal + ": they are dequantized at compile time"));
  return node.op->composite().decompose(builder, node, inputs);
}

/// What keeps weights in few bits where x's type is what stands against it.
std::string ways_out(const Context& context) {
  const auto& types = context.target.quantized_matmul;
  std::string ways;
  for (const auto& [type, option] :
       {std::pair(DType::kFloat16, "fp16"), {DType::kBFloat16, "bf16"}})
    if (types.contains(type))
      ways += fmt::format("{}--precision {}", ways.empty() ? "; " : " or ", option);
  const bool is_lowered =
      context.precision == Precision::kFloat16 || context.precision == Precision::kBFloat16;
  return is_lowered || ways.empty() ? "" : ways + " keeps them in few bits";
}

}  // namespace

ir::Graph decompose(const ir::Graph& graph, Context& context) {
  std::map<std::string, std::size_t> dequantized;  // products, by why their weights become floats
  ir::Graph result = ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const ir::Graph& old, const ir::Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (node.op->kind == ir::OpKind::kComposite && context.fuse)
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "QuantMatMul")
          if (const std::string no = quantized_refusal(context.target, old, node); !no.empty()) {
            ++dequantized[no];
            return dequantize(builder, context, node, inputs, no);
          }
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
  for (const auto& [why, products] : dequantized)
    context.precision_notes.push_back(
        fmt::format("the quantized weights of {} product{} are floats in the plan: {}{}", products,
                    products == 1 ? "" : "s", why, ways_out(context)));
  return result;
}

}  // namespace sinter::fusion
