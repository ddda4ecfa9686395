// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/biased_attention.h"

#include <memory>

#include <fmt/format.h>

namespace sinter::fusion {

using ir::Attr;

ValueId add_biased_attention(GraphBuilder& builder, const Node& node, std::vector<ValueId> inputs,
                             ValueId position, Attrs attrs, const DistanceBias& bias) {
  inputs.push_back(position);
  for (const DistanceBias::Step& step : bias.steps)
    inputs.push_back(builder.constant(std::make_shared<const Tensor>(
        Tensor::from_doubles(DType::kFloat32, bias.shape, step.values))));
  attrs.set("score_operands", std::ssize(bias.steps) + 1);
  for (const ir::AttrSpec& spec : node.op->attrs)
    if (spec.default_value && !attrs.has(spec.name)) attrs.set(spec.name, *spec.default_value);
  std::vector<TensorType> types;
  for (const ValueId input : inputs) types.push_back(builder.type(input));
  types = node.op->body_inputs(attrs, types);
  GraphBuilder body("scores");
  for (const auto& [symbol, range] : builder.ranges()) body.range(symbol, range);
  const ValueId scores = body.input("scores", types[0]), own = body.input("position", types[1]);
  const ValueId key = body.add("Iota", {},
                               {{"shape", Shape{Dim(1), types[0].shape.back()}},
                                {"axis", std::int64_t{1}},
                                {"dtype", Attr(DType::kInt64)}});
  const ValueId distance = body.add("Sub", {own, key});
  ValueId value;
  for (std::size_t i = 0; i < bias.steps.size(); ++i) {
    ValueId step = body.input(fmt::format("bias_{}", i), types[2 + i]);
    if (types[0].dtype != DType::kFloat32)
      step = body.add("Cast", {step}, {{"to", Attr(types[0].dtype)}});
    const ValueId from = body.scalar(DType::kInt64, static_cast<double>(bias.steps[i].from));
    value = i == 0 ? step
                   : body.add("Where", {body.add("GreaterOrEqual", {distance, from}), step, value});
  }
  body.output("", body.add("Add", {scores, value}));
  return builder.add_multi("Attention", std::move(inputs), attrs,
                           std::make_shared<const Graph>(body.finish()))[0];
}

}  // namespace sinter::fusion
