// SPDX-License-Identifier: Apache-2.0
#include "conv_regions.h"

#include <memory>

namespace sinter::test {
namespace {

using ir::Dim;
using ir::Graph;
using ir::GraphBuilder;
using ir::Shape;
using ir::TensorType;
using ir::ValueId;

GraphBuilder builder_with(const ir::Ranges& ranges) {
  GraphBuilder builder("g");
  for (const auto& [symbol, range] : ranges) builder.range(symbol, range);
  return builder;
}

Shape mapping(const ConvCase& conv, Dim first, Dim channels, const Shape& positions) {
  Shape shape = {std::move(first)};
  if (!conv.channels_last) shape.push_back(channels);
  shape.insert(shape.end(), positions.begin(), positions.end());
  if (conv.channels_last) shape.push_back(channels);
  return shape;
}

ValueId add_conv(GraphBuilder& builder, const ConvCase& conv, std::vector<ValueId> inputs) {
  const auto or_all = [&](const std::vector<std::int64_t>& given, std::int64_t value) {
    return given.empty() ? std::vector<std::int64_t>(conv.in.size(), value) : given;
  };
  return builder.add("Conv", std::move(inputs),
                     {{"strides", or_all(conv.strides, 1)},
                      {"dilations", or_all(conv.dilations, 1)},
                      {"pads_begin", or_all(conv.pads_begin, 0)},
                      {"pads_end", or_all(conv.pads_end, 0)},
                      {"group", conv.group},
                      {"channels_last", std::int64_t{conv.channels_last}}});
}

struct Inputs {
  ValueId x, w, bias, residual;
};

/// The inputs of a convolution's region or graph; with `result` also the residual.
Inputs add_inputs(GraphBuilder& builder, const ConvCase& conv, const TensorType* result) {
  Inputs inputs;
  Shape kernel;
  for (const std::int64_t size : conv.kernel) kernel.emplace_back(size);
  inputs.x = builder.input("x", {conv.type, mapping(conv, conv.images, conv.channels, conv.in)});
  inputs.w = builder.input(
      "w", {conv.type, mapping(conv, conv.outputs, conv.channels / conv.group, kernel)});
  if (conv.bias) inputs.bias = builder.input("bias", {conv.type, {Dim(conv.outputs)}});
  if (conv.residual && result) inputs.residual = builder.input("residual", *result);
  return inputs;
}

ValueId add_all(GraphBuilder& builder, const ConvCase& conv, const Inputs& inputs) {
  std::vector<ValueId> operands = {inputs.x, inputs.w};
  if (inputs.bias.valid()) operands.push_back(inputs.bias);
  ValueId value = add_conv(builder, conv, operands);
  if (inputs.residual.valid()) value = builder.add("Add", {value, inputs.residual});
  if (!conv.activation.empty()) value = builder.add(conv.activation, {value});
  return value;
}

TensorType result_type(const ConvCase& conv) {
  GraphBuilder builder("type");
  return builder.type(add_all(builder, conv, add_inputs(builder, conv, nullptr)));
}

std::shared_ptr<const Graph> rest_body(const ConvCase& conv, const TensorType& type,
                                       const ir::Ranges& ranges) {
  GraphBuilder builder = builder_with(ranges);
  const ValueId x = builder.input("value", type);
  if (conv.rest == "silu") {
    builder.output("y", builder.add("Mul", {x, builder.add("Sigmoid", {x})}));
  } else {
    const ValueId scale = builder.input("scale", {conv.type, {Dim(conv.outputs)}});
    const auto last = static_cast<std::int64_t>(type.shape.size()) - 1;
    const ValueId mean =
        builder.add("ReduceMean", {x},
                    {{"axes", std::vector<std::int64_t>{last}}, {"keepdims", std::int64_t{1}}});
    builder.output("y", builder.add("Mul", {builder.add("Sub", {x, mean}), scale}));
  }
  return std::make_shared<const Graph>(builder.finish());
}

}  // namespace

Graph conv_graph(const ConvCase& conv, const ir::Ranges& ranges) {
  const TensorType type = result_type(conv);
  GraphBuilder builder = builder_with(ranges);
  builder.output("y", add_all(builder, conv, add_inputs(builder, conv, &type)));
  return builder.finish();
}

Graph conv_region(const ConvCase& conv, const ir::Ranges& ranges) {
  const auto body = std::make_shared<const Graph>(conv_graph(conv, ranges));
  GraphBuilder builder = builder_with(ranges);
  std::vector<ValueId> inputs;
  for (const ValueId input : body->inputs())
    inputs.push_back(builder.input(body->value(input).name, body->type(input)));
  ValueId value = builder.add_multi("Fused", inputs, {{"kind", std::string("conv")}}, body)[0];
  if (!conv.rest.empty()) {
    const auto rest = rest_body(conv, builder.type(value), ranges);
    std::vector<ValueId> reads = {value};
    const bool reduces = conv.rest == "norm";
    if (reduces) reads.push_back(builder.input("scale", {conv.type, {Dim(conv.outputs)}}));
    value = builder.add_multi(
        "Fused", reads, {{"kind", std::string(reduces ? "reduction" : "pointwise")}}, rest)[0];
  }
  builder.output("y", value);
  return builder.finish();
}

}  // namespace sinter::test
