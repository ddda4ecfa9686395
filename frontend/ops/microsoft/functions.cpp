// SPDX-License-Identifier: Apache-2.0
// Fused activations and matmuls of com.microsoft, which ONNX Runtime's optimizer and exporters
// write; decomposed here.
#include <algorithm>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/fused_activation.h"
#include "frontend/ops/products.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

// ---- Activations

/// `x` plus input `i`, a bias along its last dimension.
ValueId biased(NodeContext& node, ValueId x, std::size_t i) {
  const ValueId bias = node.input(i, "bias");
  if (node.rank(x) == 0) node.invalid("input is a scalar; a bias needs a dimension");
  check_shape(node, bias, "bias", {node.shape(x).back()});
  return node.add("Add", {x, bias});
}

/// The input, plus a bias that broadcasts to it, if there is one.
ValueId with_bias(NodeContext& node) {
  const ValueId x = node.x();
  if (!node.has_input(1)) return x;
  const ValueId bias = node.input(1, "bias");
  if (node.rank(bias) == 1) return biased(node, x, 1);
  if (ir::broadcast(node.shape(x), node.shape(bias)) != node.shape(x))
    node.invalid("bias is {}, which does not broadcast to {}", node.type(bias), node.type(x));
  return node.add("Add", {x, bias});
}

void gelu(NodeContext& node) { node.output(node.add("Gelu", {node.x()})); }
void bias_gelu(NodeContext& node) { node.output(node.add("Gelu", {biased(node, node.x(), 1)})); }
void fast_gelu(NodeContext& node) { node.output(node.add("GeluTanh", {with_bias(node)})); }

/// Splits x + bias along the last dimension and multiplies the first half with Gelu of the second.
void bias_split_gelu(NodeContext& node) {
  const ValueId x = biased(node, node.x(), 1);
  const std::int64_t last = node.rank(x) - 1;
  const auto half = ir::divide_exactly(node.shape(x).back(), 2);
  if (!half) node.invalid("its last dimension is split into halves, but input is {}", node.type(x));
  node.output(node.add("Mul", {part(node, x, last, 0, *half),
                               node.add("Gelu", {part(node, x, last, *half, *half)})}));
}

/// X + bias + skip.
void bias_add(NodeContext& node) {
  const ValueId x = node.x(), skip = node.input(2, "skip");
  check_shape(node, skip, "skip", node.shape(x));
  node.output(node.add("Add", {biased(node, x, 1), skip}));
}

/// x * sigmoid(alpha * x).
void quick_gelu(NodeContext& node) {
  const ValueId x = node.x();
  const ValueId alpha = node.constant(node.dtype(x), node.attr_float("alpha", 1.702f));
  node.output(node.add("Mul", {x, node.add("Sigmoid", {node.add("Mul", {x, alpha})})}));
}

/// Of gate and linear part, clamped where the attribute 'limit' is positive, in float32.
ValueId gated(NodeContext& node, ValueId gate_value, ValueId linear_value) {
  const DType type = node.dtype(gate_value);
  Term gate(node, node.widened(gate_value)), linear(node, node.widened(linear_value));
  if (const double limit = node.attr_float("limit", 0); limit > 0) {
    gate = gate.with("Min", limit);
    linear = clamp(linear, -limit, linear.number(limit));
  }
  Term activated = gate * (gate * node.attr_float("activation_alpha", 1)).apply("Sigmoid");
  if (node.op_type() == "SwiGLU" && node.attr_int("round_activation", 0) != 0)
    activated = activated.cast(type).cast(gate.dtype());
  return (activated * (linear + node.attr_float("activation_beta", 0))).cast(type).value();
}

/// Both parts may be one input, one behind the other.
void microsoft_swiglu(NodeContext& node) {
  const ValueId x = node.input(0, "gate");
  if (node.has_input(1)) {
    check_shape(node, node.input(1, "up"), "up", node.shape(x));
    return node.output(gated(node, x, node.input(1, "up")));
  }
  const std::int64_t last = node.rank(x) - 1;
  const auto half = last < 0 ? std::nullopt : ir::divide_exactly(node.shape(x).back(), 2);
  if (!half) node.invalid("{} has no halves", node.type(x));
  node.output(gated(node, part(node, x, last, 0, *half), part(node, x, last, *half, *half)));
}

/// A product whose first columns are a router's logits and whose others are a gate and a linear
/// part.
void router_gate_up(NodeContext& node) {
  if (const std::string name = node.attr_string("activation", "swiglu"); name != "swiglu")
    node.unsupported("activation '" + name + "'; supported is swiglu");
  const ValueId y = multiply_matrices(node, node.input(0, "X"), node.input(1, "W"));
  const std::int64_t last = node.rank(y) - 1, router = node.attr_int("router_size");
  const Dim rest = node.shape(y).back() - Dim(router);
  const auto half = router < 0 ? std::nullopt : ir::divide_exactly(rest, 2);
  if (!half) node.invalid("{} columns behind {} are no pairs", rest, router);
  node.output(0, part(node, y, last, 0, Dim(router)));
  node.output(1, gated(node, part(node, y, last, Dim(router), *half),
                       part(node, y, last, Dim(router) + *half, *half)));
}

// ---- Matrix products

/// Moves dimension 0 before the last one if `batch`, then exchanges the last two if `matrix`.
ValueId turned(NodeContext& node, ValueId x, bool batch, bool matrix) {
  const auto rank = static_cast<std::size_t>(node.rank(x));
  if (rank < 2) return x;
  Ints perm(rank);
  for (std::size_t d = 0; d < rank; ++d) perm[d] = static_cast<std::int64_t>(d);
  if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (matrix) std::swap(perm[rank - 1], perm[rank - 2]);
  return node.transpose(x, perm);
}

/// alpha * A' * B'; vectors are not transposed.
ValueId scaled_product(NodeContext& node) {
  const auto operand = [&](std::size_t i, const char* what, const char* batch, const char* matrix) {
    return turned(node, node.input(i, what), node.attr_int(batch, 0) != 0,
                  node.attr_int(matrix, 0) != 0);
  };
  const ValueId product = multiply_matrices(node, operand(0, "A", "transBatchA", "transA"),
                                            operand(1, "B", "transBatchB", "transB"));
  const double alpha = node.attr_float("alpha", 1);
  return alpha == 1 ? product
                    : node.add("Mul", {product, node.constant(node.dtype(product), alpha)});
}

void fused_matmul(NodeContext& node) { node.output(scaled_product(node)); }

/// Attributes activation_alpha, _beta and _gamma that the node has.
std::vector<double> activation_numbers(NodeContext& node) {
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!node.has_attr(name)) break;
    numbers.push_back(node.attr_float(name));
  }
  return numbers;
}

void fused_matmul_activation(NodeContext& node) {
  node.output(fused_activation(node, scaled_product(node), node.attr_string("activation"),
                               activation_numbers(node)));
}

void fused_gemm(NodeContext& node) {
  node.output(fused_activation(node, import_gemm(node), node.attr_string("activation", ""),
                               activation_numbers(node)));
}

void gemm_fast_gelu(NodeContext& node) {
  ValueId product = multiply_matrices(node, node.input(0, "X"), node.input(1, "W"));
  if (node.has_input(2)) product = biased(node, product, 2);
  node.output(node.add("GeluTanh", {product}));
}

}  // namespace

const OpRows kMicrosoftOps = {
    {"BiasGelu", 1, bias_gelu, "", kMicrosoft},
    {"BiasSplitGelu", 1, bias_split_gelu, "", kMicrosoft},
    {"BiasAdd", 1, bias_add, "", kMicrosoft},
    {"Gelu", 1, gelu, "", kMicrosoft},
    {"FastGelu", 1, fast_gelu, "", kMicrosoft},
    {"QuickGelu", 1, quick_gelu, "alpha", kMicrosoft},
    {"RouterGateUpProj", 1, router_gate_up,
     "activation activation_alpha activation_beta limit router_size", kMicrosoft},
    {"SwiGLU", 1, microsoft_swiglu, "activation_alpha activation_beta limit round_activation",
     kMicrosoft},
    {"GemmFastGelu", 1, gemm_fast_gelu, "", kMicrosoft},
    {"FusedMatMul", 1, fused_matmul, "alpha transA transB transBatchA transBatchB", kMicrosoft},
    {"TransposeMatMul", 1, fused_matmul, "alpha transA transB", kMicrosoft},
    {"FusedMatMulActivation", 1, fused_matmul_activation,
     "activation activation_alpha activation_axis activation_beta activation_gamma alpha transA "
     "transB transBatchA transBatchB",
     kMicrosoft},
    {"FusedGemm", 1, fused_gemm,
     "activation activation_alpha activation_beta activation_gamma alpha beta transA transB",
     kMicrosoft, Types::kNumbers},
};

}  // namespace sinter::frontend
