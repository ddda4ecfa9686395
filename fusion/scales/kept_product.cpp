// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/kept_product.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "fusion/calibration/layer_inputs.h"
#include "fusion/patterns/dequantization.h"
#include "fusion/scales/grouped_weights.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

bool has_elements(const Shape& shape) {
  return std::ranges::all_of(shape,
                             [](const Dim& dim) { return dim.is_constant() && dim.value() > 0; });
}

/// The report of `node`, whose operand `operand` is its weights.
QuantizedLayer row_of(const Graph& graph, const Node& node, std::size_t operand,
                      std::string reason) {
  const TensorType& weights = graph.type(node.inputs[operand]);
  const bool is_conv = node.op->name == "Conv";
  const std::size_t last = weights.shape.size() - 1;
  const std::int64_t elements = ir::element_count(weights.shape).value();
  const bool has_rows_of_k =
      operand == 0 || (is_plain_grouped(node) && node.attrs.get_int("transposed") != 0);
  QuantizedLayer row;
  row.name = layer_name(node);
  row.n = weights.shape[is_conv ? 0 : has_rows_of_k ? last - 1 : last].value();
  row.k = is_conv ? elements / row.n : weights.shape[has_rows_of_k ? last : last - 1].value();
  row.bytes_before = row.bytes_after =
      static_cast<double>(elements) * static_cast<double>(size_of(weights.dtype));
  row.kept = std::move(reason);
  return row;
}

std::string reason_of(const Node& node, std::size_t operand, const TensorType& weights) {
  if (weights.dtype == DType::kFloat64)
    return "its numbers are f64; those of f32, f16 and bf16 are rounded";
  if (node.op->name != "MatMul") return "";
  if (operand == 0)
    return "its weights are the left operand; on the right, x W in place of W' x', they are "
           "quantized";
  if (weights.shape.size() > 2)
    return fmt::format(
        "its weights {} are a matrix for each of a batch; one matrix [k, n] is quantized",
        ir::to_string(weights.shape));
  return "";
}

/// The source of a matmul's weights in a body, before views.
ValueId source_of(const Graph& body, ValueId value) {
  const Node* node = body.producer(value);
  while (node != nullptr && node->op->kind == OpKind::kView && node->inputs.size() == 1) {
    value = node->inputs[0];
    node = body.producer(value);
  }
  return value;
}

/// `known`: which of the body's inputs are constants outside.
void add_products(const Graph& body, const std::vector<bool>& known,
                  std::vector<QuantizedLayer>& rows) {
  const auto is_weight = [&](ValueId value) {
    const ValueId source = source_of(body, value);
    const auto number = body.input_number(source);
    return is_arithmetic_float(body.type(value).dtype) && has_elements(body.type(value).shape) &&
           (body.is_constant(source) || (number && known[*number]));
  };
  for (const Node& node : body.nodes()) {
    if (ir::is_plain_matmul(node) || is_plain_grouped(node) || node.op->name == "Conv") {
      const bool left = is_weight(node.inputs[0]), right = is_weight(node.inputs[1]);
      if (left != right && (right || node.op->name == "MatMul"))
        rows.push_back(row_of(body, node, left ? 0 : 1, "it is in the body of a loop"));
    }
    if (!node.body) continue;
    std::vector<bool> inner(node.inputs.size());
    const std::size_t captured = 1 + node.outputs.size();  // after the states, which change
    for (std::size_t i = captured; i < inner.size(); ++i) inner[i] = is_weight(node.inputs[i]);
    add_products(*node.body, inner, rows);
  }
}

}  // namespace

std::optional<QuantizedLayer> kept_product(const Graph& graph, const ConstantValues& values,
                                           const Node& node) {
  if (!ir::is_plain_matmul(node) && !is_plain_grouped(node) && node.op->name != "Conv")
    return std::nullopt;
  const bool left = values.knows(node.inputs[0]), right = values.knows(node.inputs[1]);
  if (left == right) return std::nullopt;
  const std::size_t operand = left ? 0 : 1;
  const ValueId weights = node.inputs[operand];
  const TensorType& type = graph.type(weights);
  if ((left && node.op->name != "MatMul") || !is_arithmetic_float(type.dtype) ||
      !is_arithmetic_float(graph.type(node.inputs[1 - operand]).dtype) || !has_elements(type.shape))
    return std::nullopt;
  std::string reason = reason_of(node, operand, type);
  const auto known = [&](ValueId value) { return values.knows(value); };
  if (reason.empty() || match_dequantization(graph, weights, known)) return std::nullopt;
  return row_of(graph, node, operand, std::move(reason));
}

std::vector<QuantizedLayer> products_of_bodies(const ConstantValues& values, const Node& node) {
  std::vector<QuantizedLayer> rows;
  if (node.op->kind != OpKind::kWhile || !node.body) return rows;
  std::vector<bool> known(node.inputs.size());
  for (std::size_t i = 1 + node.outputs.size(); i < known.size(); ++i)
    known[i] = values.knows(node.inputs[i]);
  add_products(*node.body, known, rows);
  return rows;
}

}  // namespace sinter::fusion
