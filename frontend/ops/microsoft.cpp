// Operators of com.microsoft that ONNX Runtime's optimiser and exporters for it write: fused
// normalisations, activations and products. They are taken apart again.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/attention_core.h"
#include "frontend/ops/op_table.h"
#include "frontend/ops/unroll.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::Tensor;
using ir::ValueId;

// ---- Normalisations

ValueId layer_norm(NodeContext& node, ValueId x, std::size_t gamma, std::size_t beta) {
  const ValueId shift =
      node.has_input(beta) ? node.input(beta, "beta") : node.constant(node.dtype(x), 0);
  return node.add("LayerNorm", {x, node.input(gamma, "gamma"), shift},
                  {{"axis", node.rank(x) - 1}, {"epsilon", node.attr_float("epsilon", 1e-12f)}});
}

/// input + skip + bias, which is also output 3.
ValueId skip_sum(NodeContext& node, std::size_t bias) {
  const ValueId x = node.input(0, "input");
  ValueId sum = node.add("Add", {x, node.input(1, "skip")});
  if (node.shape(sum) != node.shape(x))
    node.invalid(fmt::format("skip is {}, which does not broadcast to the input's {}",
                             ir::to_string(node.type(node.input(1, "skip"))),
                             ir::to_string(node.type(x))));
  if (node.has_input(bias)) sum = node.add("Add", {sum, node.input(bias, "bias")});
  node.output(3, sum);
  return sum;
}

void skip_layer_normalization(NodeContext& node) {
  node.output(layer_norm(node, skip_sum(node, 4), 2, 3));
}

void skip_simplified_layer_normalization(NodeContext& node) {
  const ValueId sum = skip_sum(node, 3);
  node.output(
      node.add("RmsNorm", {sum, node.input(2, "gamma")},
               {{"axis", node.rank(sum) - 1}, {"epsilon", node.attr_float("epsilon", 1e-12f)}}));
}

ValueId rows_of(NodeContext& node, std::size_t table, const char* what, ValueId indices) {
  return node.add("Gather", {node.input(table, what), indices}, {{"axis", std::int64_t{0}}});
}

/// The sum of word, position and segment embeddings, normalised.
void embed_layer_normalization(NodeContext& node) {
  const ValueId ids = node.input(0, "input_ids");
  if (node.rank(ids) != 2)
    node.invalid("input_ids must be [batch, length], but is " + ir::to_string(node.type(ids)));
  const Dim batch = node.shape(ids)[0], length = node.shape(ids)[1];
  ValueId positions;
  if (node.has_input(8)) {
    positions = rows_of(node, 3, "position_embedding", node.input(8, "position_ids"));
  } else {
    const ValueId table = node.input(3, "position_embedding");
    if (node.rank(table) == 2 && node.shape(table)[0].is_constant())
      node.limit(length, node.shape(table)[0].value());
    positions = part(node, table, 0, 0, length);
  }
  ValueId sum = node.add("Add", {rows_of(node, 2, "word_embedding", ids), positions});
  if (node.has_input(1))
    sum =
        node.add("Add", {sum, rows_of(node, 4, "segment_embedding", node.input(1, "segment_ids"))});
  node.output(0, layer_norm(node, sum, 5, 6));
  node.output(2, sum);
  if (!node.output_is_used(1)) return;
  if (!node.has_input(7))
    return node.output(1, node.expand(node.constant(DType::kInt32, 0), {batch}));
  const ValueId mask = node.input(7, "mask");
  const ValueId is_one = node.add("Equal", {mask, node.constant(node.dtype(mask), 1)});
  node.output(1, node.add("ReduceSum", {node.cast(is_one, DType::kInt32)},
                          {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}));
}

// ---- Activations

ValueId with_bias(NodeContext& node) {
  return node.has_input(1) ? node.add("Add", {node.x(), node.input(1, "bias")}) : node.x();
}

void bias_gelu(NodeContext& node) { node.output(node.add("Gelu", {with_bias(node)})); }
void fast_gelu(NodeContext& node) { node.output(node.add("GeluTanh", {with_bias(node)})); }

/// x * sigmoid(alpha * x).
void quick_gelu(NodeContext& node) {
  const ValueId x = node.x();
  const ValueId alpha = node.constant(node.dtype(x), node.attr_float("alpha", 1.702f));
  node.output(node.add("Mul", {x, node.add("Sigmoid", {node.add("Mul", {x, alpha})})}));
}

// ---- Products

/// Dimension 0 moved in front of the last one, then the last two exchanged, as asked for.
ValueId turned(NodeContext& node, ValueId x, bool batch, bool matrix) {
  const auto rank = static_cast<std::size_t>(node.rank(x));
  if (rank < 2) return x;
  std::vector<std::int64_t> perm(rank);
  for (std::size_t d = 0; d < rank; ++d) perm[d] = static_cast<std::int64_t>(d);
  if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (matrix) std::swap(perm[rank - 1], perm[rank - 2]);
  return node.transpose(x, perm);
}

void fused_matmul(NodeContext& node) {
  const auto operand = [&](std::size_t i, const char* what, const char* batch, const char* matrix) {
    const ValueId x = node.input(i, what);
    if (node.rank(x) < 2)
      node.unsupported(fmt::format("operand {} is {}; write a vector as a matrix", what,
                                   ir::to_string(node.type(x))));
    return turned(node, x, node.attr_int(batch, 0) != 0, node.attr_int(matrix, 0) != 0);
  };
  const ValueId a = operand(0, "A", "transBatchA", "transA");
  const ValueId b = operand(1, "B", "transBatchB", "transB");
  const ValueId product = node.add("MatMul", {a, b});
  const double alpha = node.attr_float("alpha", 1);
  node.output(alpha == 1 ? product
                         : node.add("Mul", {product, node.constant(node.dtype(product), alpha)}));
}

/// The activation that a fused convolution ends with.
ValueId conv_activation(NodeContext& node, ValueId x) {
  const std::string name = node.attr_string("activation", "");
  const auto parameters = node.attr_floats("activation_params").value_or(std::vector<double>());
  const auto number = [&](std::size_t i, double fallback) {
    return node.constant(node.dtype(x), i < parameters.size() ? parameters[i] : fallback);
  };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Tanh" || name == "Sigmoid") return node.add(name, {x});
  if (name == "LeakyRelu") return node.add(name, {x, number(0, 0.01)});
  if (name == "Clip")
    return node.add(name, {x, number(0, -3.4028234663852886e38), number(1, 3.4028234663852886e38)});
  if (name == "HardSigmoid") return node.add(name, {x, number(0, 0.2), number(1, 0.5)});
  node.unsupported("activation '" + name +
                   "'; supported are Relu, Tanh, Sigmoid, LeakyRelu, Clip "
                   "and HardSigmoid: export without fusing activations");
}

void fused_conv(NodeContext& node) {
  ValueId y = import_conv(node);
  if (node.has_input(3)) y = node.add("Add", {y, node.input(3, "Z")});
  node.output(conv_activation(node, y));
}

constexpr OpRow kMicrosoftOps[] = {
    {"SkipLayerNormalization", 1, skip_layer_normalization, "epsilon", kMicrosoft},
    {"SkipSimplifiedLayerNormalization", 1, skip_simplified_layer_normalization, "epsilon",
     kMicrosoft},
    {"EmbedLayerNormalization", 1, embed_layer_normalization, "epsilon mask_index_type",
     kMicrosoft},
    {"BiasGelu", 1, bias_gelu, "", kMicrosoft},
    {"Gelu", 1, bias_gelu, "", kMicrosoft},
    {"FastGelu", 1, fast_gelu, "", kMicrosoft},
    {"QuickGelu", 1, quick_gelu, "alpha", kMicrosoft},
    {"FusedMatMul", 1, fused_matmul, "alpha transA transB transBatchA transBatchB", kMicrosoft},
    {"FusedConv", 1, fused_conv,
     "activation activation_params auto_pad dilations group kernel_shape pads strides", kMicrosoft},
};

}  // namespace

std::span<const OpRow> microsoft_ops() { return kMicrosoftOps; }

}  // namespace sinter::frontend
