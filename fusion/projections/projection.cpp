// SPDX-License-Identifier: Apache-2.0
#include "fusion/projections/projection.h"

#include <algorithm>

#include "fusion/regions/dequantized_sums.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/operand.h"
#include "ir/scale_format.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

/// The bias that `node` adds to its operand `value`, or null.
const Tensor* bias_of(const Graph& graph, const Node& node, ValueId value) {
  if (node.op->name != "Add" || node.inputs[0] == node.inputs[1]) return nullptr;
  const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
  return is_bias(graph, other, graph.type(value).shape) ? graph.value(other).constant.get()
                                                        : nullptr;
}

const Node* only_reader(const Graph& graph, ValueId value) {
  const auto& users = graph.users(value);
  return users.size() == 1 && !graph.is_output(value) ? &graph.node(users[0]) : nullptr;
}

/// Collects the steps that convert accumulators to 16-bit floats; false if there are none.
bool take_steps(const Graph& graph, Projection& projection) {
  ValueId value = projection.result();
  const Node* reader = only_reader(graph, value);
  if (reader == nullptr) return false;
  const auto chain = dequantization(graph, value, *reader, [](ValueId) { return false; });
  if (chain.empty()) return false;
  projection.steps.emplace_back();
  for (const NodeId id : chain) {
    const Node& node = graph.node(id);
    const Tensor* bias = bias_of(graph, node, value);
    if (bias != nullptr && projection.steps.back().bias == nullptr) {
      projection.steps.back().bias = bias;
    } else {
      const auto at = std::ranges::find(node.inputs, value);
      projection.steps.push_back(
          {&node, static_cast<std::size_t>(at - node.inputs.begin()), nullptr});
    }
    projection.nodes.push_back(&node);
    value = node.outputs[0];
  }
  return true;
}

/// True for a constant with one element for each of n columns, or one for all.
bool is_of_columns(const Graph& graph, ValueId value, std::int64_t n) {
  const Tensor* constant = graph.value(value).constant.get();
  if (constant == nullptr) return false;
  const std::int64_t count = constant->element_count();
  return count == 1 || (count == n && constant->shape().back() == n);
}

bool steps_fit(const Graph& graph, const Projection& a, const Projection& b) {
  if (a.steps.size() != b.steps.size()) return false;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const SumsStep &one = a.steps[i], &other = b.steps[i];
    if (one.bias != nullptr && other.bias != nullptr && one.bias->dtype() != other.bias->dtype())
      return false;
    if (one.node == nullptr) continue;
    if (one.node->op != other.node->op || one.node->attrs != other.node->attrs ||
        one.operand != other.operand)
      return false;
    for (std::size_t in = 0; in < one.node->inputs.size(); ++in) {
      if (in == one.operand) continue;
      const ValueId first = one.node->inputs[in], second = other.node->inputs[in];
      const bool fits = is_shared(graph, first, second) ||
                        (graph.type(first).dtype == graph.type(second).dtype &&
                         is_of_columns(graph, first, a.n) && is_of_columns(graph, second, b.n));
      if (!fits) return false;
    }
  }
  return true;
}

/// A GroupedMatMul in this form.
std::optional<Projection> find_grouped(const Graph& graph, const Node& node) {
  const ir::ProductFormats formats(node.attrs);
  if (formats.x) return std::nullopt;
  Projection result;
  std::vector<const Tensor*> weights;
  for (std::size_t i = 1; i + 1 < node.inputs.size(); ++i) {
    weights.push_back(graph.value(node.inputs[i]).constant.get());
    if (weights.back() == nullptr || weights.back()->shape().size() != 3) return std::nullopt;
  }
  result.matmul = &node;
  result.transposed = node.attrs.get_int("transposed") != 0;
  const Ints& shape = weights.at(0)->shape();
  result.n = shape[result.transposed || formats.w ? 1 : 2];
  if (formats.w) {
    result.quantized = std::move(weights);
  } else {
    result.weight = weights[0];
    result.k = shape[result.transposed ? 2 : 1];
  }
  return result;
}

}  // namespace

bool is_shared(const Graph& graph, ValueId a, ValueId b) {
  const TensorType& type = graph.type(a);
  if (!type.shape.empty() && type.shape.back() != Dim(1)) return false;
  if (a == b) return true;
  const auto one = splat_value(graph, a), other = splat_value(graph, b);
  return one && one == other && type == graph.type(b);
}

std::optional<Projection> find_projection(const Graph& graph, const Node& node,
                                          const TargetTraits& target) {
  if (node.op->name == "GroupedMatMul") return find_grouped(graph, node);
  if (!is_matrix_product(node) || ir::has_scaled_operands(node)) return std::nullopt;
  if (graph.is_constant(node.inputs[0]) || graph.type(node.inputs[1]).shape.size() != 2)
    return std::nullopt;
  Projection result;
  if (ir::has_scaled_weights(node)) {
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      result.quantized.push_back(graph.value(node.inputs[i]).constant.get());
      if (result.quantized.back() == nullptr) return std::nullopt;
    }
    result.n = result.quantized[0]->shape()[0];
  } else {
    ValueId weight = node.inputs[1];
    const Node* view = graph.producer(weight);
    if (view != nullptr && view->op->name == "Transpose") {
      result.transposed = true;
      weight = view->inputs[0];
    }
    result.weight = graph.value(weight).constant.get();
    if (result.weight == nullptr) return std::nullopt;
    result.k = result.weight->shape()[result.transposed ? 1 : 0];
    result.n = result.weight->shape()[result.transposed ? 0 : 1];
  }
  result.matmul = &node;
  // Our kernels end with the dequantized 16-bit result; joined without it they would store
  // accumulators.
  if (target.gemm_kernels && has_eight_bit_operands(graph, node) && !take_steps(graph, result))
    return std::nullopt;
  const Node* add = only_reader(graph, result.result());
  if (add == nullptr) return result;
  result.bias = bias_of(graph, *add, result.result());
  if (result.bias != nullptr) result.nodes.push_back(add);
  return result;
}

bool fit_together(const Graph& graph, const Projection& a, const Projection& b) {
  if (a.matmul->op != b.matmul->op) return false;
  if (a.matmul->op->name == "GroupedMatMul" &&
      (a.transposed != b.transposed || a.matmul->inputs.back() != b.matmul->inputs.back()))
    return false;
  if (ir::may_round(a.matmul->attrs) != ir::may_round(b.matmul->attrs)) return false;
  auto one = ir::ProductFormats(a.matmul->attrs).w, other = ir::ProductFormats(b.matmul->attrs).w;
  if (one.has_value() != other.has_value() || !steps_fit(graph, a, b)) return false;
  if (!one) return a.weight->dtype() == b.weight->dtype();
  // Weights without zero points get zeros, if these come last.
  if (!one->offset && (!one->zero || !other->zero)) one->zero = other->zero = std::nullopt;
  return one->to_string() == other->to_string();
}

}  // namespace sinter::fusion
