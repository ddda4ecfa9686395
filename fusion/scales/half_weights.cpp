// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/half_weights.h"

#include <vector>

#include "fusion/regions/operand.h"

namespace sinter::fusion {
namespace {

/// True for a cast of floats of 16 bits that changes no number.
bool is_widening(const Graph& graph, const Node& node) {
  if (node.op->name != "Cast") return false;
  const DType from = graph.type(node.inputs[0]).dtype, to = graph.type(node.outputs[0]).dtype;
  return (from == DType::kFloat16 || from == DType::kBFloat16) && to == DType::kFloat32;
}

}  // namespace

std::optional<ir::ScaledTensor> half_weights(const Graph& graph, const Context& context,
                                             const Node& node) {
  // Both would want the floats themselves.
  if (context.precision == Precision::kBFloat16 || context.eight_bit.type) return std::nullopt;
  ValueId value = node.inputs[1];
  bool is_transposed = false;
  const auto is_transpose = [](const Node& view) {
    return view.op->name == "Transpose" && view.attrs.get_ints("perm") == Ints{1, 0};
  };
  for (const Node* by = graph.producer(value); by != nullptr; by = graph.producer(value)) {
    if (is_transpose(*by))
      is_transposed = !is_transposed;
    else if (!is_widening(graph, *by))
      return std::nullopt;
    value = by->inputs[0];
  }
  const auto& stored = graph.value(value).constant;
  if (stored == nullptr || stored->shape().size() != 2) return std::nullopt;
  const DType type = stored->dtype();
  if (type != DType::kFloat16 && type != DType::kBFloat16) return std::nullopt;
  const Tensor rows = is_transposed ? *stored : transposed(*stored);
  const std::int64_t n = rows.shape()[0], k = rows.shape()[1];
  ir::ScaledTensor weights = ir::scaled_rows_of(
      ir::codes_stored_as(type), 0, k, rows,
      Tensor::from_doubles(DType::kFloat32, {n, 1},
                           std::vector<double>(static_cast<std::size_t>(n), 1)),
      std::nullopt);
  if (!quantized_refusal(context.target, graph, node, graph.type(node.inputs[0]).dtype,
                         weights.format)
           .empty())
    return std::nullopt;
  return weights;
}

}  // namespace sinter::fusion
