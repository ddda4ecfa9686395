#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/lowering/describe.h"
#include "codegen/lowering/library_lowering.h"

namespace sinter::codegen {
namespace {

using plan::fb::Activation;

std::optional<Activation> activation_of(const ir::Node& node) {
  if (node.op->name == "Relu") return Activation::Relu;
  if (node.op->name == "Gelu") return Activation::GeluErf;
  if (node.op->name == "GeluTanh") return Activation::GeluTanh;
  return std::nullopt;
}

std::vector<std::uint64_t> sizes(const ir::Node& node, std::string_view name) {
  const auto& values = node.attrs.get_ints(name);
  return {values.begin(), values.end()};
}

}  // namespace

plan::fb::ConvStepT lower_conv(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                               std::span<const std::uint32_t> outputs, ExprTable& exprs) {
  const auto& nodes = body.nodes();
  const auto first = std::find_if(nodes.begin(), nodes.end(),
                                  [](const ir::Node& node) { return node.op->name == "Conv"; });
  if (first == nodes.end() || outputs.size() != 1)
    throw Error(ErrorCode::kInternal, "a conv region without a Conv, or with several outputs");
  const ir::Node& conv = *first;

  plan::fb::ConvStepT step;
  const auto buffer_of = [&](ir::ValueId value) {
    const auto at = std::find(body.inputs().begin(), body.inputs().end(), value);
    if (at == body.inputs().end())
      throw Error(ErrorCode::kUnsupported,
                  describe(conv) + ": an operand is not an input of its region");
    return inputs[static_cast<std::size_t>(at - body.inputs().begin())];
  };
  step.input = buffer_of(conv.inputs[0]);
  step.weight = buffer_of(conv.inputs[1]);
  if (conv.inputs.size() > 2) step.bias = static_cast<std::int32_t>(buffer_of(conv.inputs[2]));
  step.output = outputs[0];

  ir::ValueId result = conv.outputs[0];
  for (const ir::Node& node : nodes) {
    if (&node == &conv) continue;
    const auto activation = activation_of(node);
    if (!activation || node.inputs[0] != result || step.activation != Activation::None)
      throw Error(ErrorCode::kUnsupported,
                  describe(node) + " cannot follow a convolution within one library call");
    step.activation = *activation;
    result = node.outputs[0];
  }
  if (body.outputs()[0] != result)
    throw Error(ErrorCode::kUnsupported,
                describe(conv) + ": the region's output is not the convolution's result");

  const auto shape_of = [&](ir::ValueId value) {
    std::vector<std::uint32_t> shape;
    for (const ir::Dim& dim : body.type(value).shape) shape.push_back(exprs.intern(dim));
    return shape;
  };
  step.input_shape = shape_of(conv.inputs[0]);
  step.weight_shape = shape_of(conv.inputs[1]);
  step.output_shape = shape_of(result);
  step.strides = sizes(conv, "strides");
  step.dilations = sizes(conv, "dilations");
  step.pads_begin = sizes(conv, "pads_begin");
  step.pads_end = sizes(conv, "pads_end");
  step.group = static_cast<std::uint64_t>(conv.attrs.get_int("group"));
  return step;
}

}  // namespace sinter::codegen
