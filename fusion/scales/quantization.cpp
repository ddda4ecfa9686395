// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/quantization.h"

#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

std::optional<double> known_number(const Graph& graph, ValueId value) {
  if (const auto number = splat_value(graph, value)) return number;
  const Node* cast = graph.producer(value);
  if (cast == nullptr || (cast->op->name != "Cast" && cast->op->name != "Reshape"))
    return std::nullopt;
  return known_number(graph, cast->inputs[0]);
}

std::optional<Quantization> quantization_of(const Graph& graph, const Node& node) {
  const DType type = graph.type(node.outputs[0]).dtype;
  const bool integers = is_integer(type);
  if (node.op->name != "Cast" || size_of(type) != 1 || (!integers && !is_float(type)))
    return std::nullopt;
  Quantization result{node.inputs[0]};
  const Node* step = graph.producer(result.x);
  if (integers) {
    if (step != nullptr && step->op->name == "Add") {
      const auto zero = known_number(graph, step->inputs[1]);
      if (!zero) return std::nullopt;
      result.zero = *zero;
      step = graph.producer(step->inputs[0]);
    }
    if (step == nullptr || step->op->name != "Round") return std::nullopt;
    step = graph.producer(step->inputs[0]);
  }
  if (step == nullptr || step->op->name != "Quotient") return std::nullopt;
  const auto scale = known_number(graph, step->inputs[1]);
  if (!scale) return std::nullopt;
  result.scale = *scale;
  result.x = step->inputs[0];
  return result;
}

}  // namespace sinter::fusion
