// SPDX-License-Identifier: Apache-2.0
// Layers of com.microsoft around products with block-quantized weights, which ONNX Runtime has for
// GPUs, and products with 8-bit floats. Source: the schemas of ONNX Runtime 1.31.
#include "frontend/ops/products.h"
#include "frontend/ops/quantization/block_quantized.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// The node's input after its optional (Skip)SimplifiedLayerNormalization; output `sum` is the
/// residual.
ValueId normalised_input(NodeContext& node, std::size_t sum) {
  ValueId x = node.input(0, "A");
  if (node.has_input(1)) {
    check_shape(node, node.input(1, "skip"), "skip", node.shape(x));
    x = node.add("Add", {x, node.input(1, "skip")});
  }
  node.output(sum, x);
  if (!node.has_input(2)) return x;
  const ValueId scale = node.input(2, "norm_scale");
  check_shape(node, scale, "norm_scale", {node.shape(x).back()});
  return node.add("RmsNorm", {x, scale},
                  {{"axis", node.rank(x) - 1}, {"epsilon", node.attr_float("epsilon", 1e-5f)}});
}

/// x times the transpose of constant weights [rows, K], inputs `first` (numbers), `first` + 1
/// (scales) and `first` + 2 (an optional bias).
ValueId projected(NodeContext& node, ValueId x, std::size_t first, std::int64_t rows,
                  const std::string& what) {
  const BlockedWeights w = blocked_weights(node, rows);
  const auto constant = [&](std::size_t i, const std::string& name, std::int64_t elements) {
    const ir::Tensor* tensor = node.builder().constant_of(node.input(i, name));
    if (tensor == nullptr) node.unsupported("input {} ({}) is not a constant", i, name);
    if (tensor->element_count() != elements)
      node.invalid("input {} ({}) is {}; it must have {} elements", i, name, tensor->type(),
                   elements);
    return *tensor;
  };
  const ir::Tensor values = constant(first, what + "_B", w.rows * w.pitch()),
                   scales = constant(first + 1, what + "_scales", w.rows * w.blocks);
  ValueId y = scaled_matmul(node, x, w, scaled_values(values, w), scales, std::nullopt,
                            node.attr_int("accuracy_level", 0));
  if (node.has_input(first + 2)) {
    const ValueId bias = node.input(first + 2, what + "_bias");
    check_shape(node, bias, what + "_bias", {Dim(rows)});
    y = node.add("Add", {y, bias});
  }
  return y;
}

/// activation(gate) * up of one input.
void matmul_nbits_mlp(NodeContext& node) {
  const std::string activation = node.attr_string("activation");
  if (activation != "silu")
    node.unsupported("attribute 'activation' is '" + activation + "'; silu is supported");
  const ValueId x = normalised_input(node, 1);
  const std::int64_t rows = node.attr_int("N");
  const ValueId gate = projected(node, x, 3, rows, "gate"), up = projected(node, x, 6, rows, "up");
  node.output(0, node.add("Mul", {node.add("Silu", {gate}), up}));
}

void matmul_nbits_qkv(NodeContext& node) {
  const ValueId x = normalised_input(node, 3);
  const std::int64_t of_q = node.attr_int("Nq"), of_kv = node.attr_int("Nkv");
  node.output(0, projected(node, x, 3, of_q, "q"));
  node.output(1, projected(node, x, 6, of_kv, "k"));
  node.output(2, projected(node, x, 9, of_kv, "v"));
}

/// A [.., K] times the transpose of e4m3 weights [N, K] with a scale for each block of a row. With
/// a_scale A is rounded to e4m3, too.
void matmul_fp8(NodeContext& node) {
  Term a(node, node.input(0, "A"));
  const Term b(node, node.input(1, "B")), scales(node, node.input(2, "b_scale"));
  check_dtype(node, b.value(), "B", {DType::kFloat8E4M3FN});
  const std::int64_t block = node.attr_int("block_size", 128);
  const Shape shape = b.shape();
  if (shape.size() != 2 || !shape[1].is_constant() || block < 1 || block > kMostBlockedSize)
    node.invalid("B {} and block_size {} are no matrix in blocks", node.type(b.value()), block);
  check_shape(node, scales.value(), "b_scale",
              {shape[0], Dim((shape[1].value() + block - 1) / block)});
  const DType type = a.dtype();
  if (node.has_input(3)) {
    const Term scale = Term(node, node.input(3, "a_scale")).cast(DType::kFloat32).reshape({});
    const Term wide = a.cast(DType::kFloat32);
    a = ((wide / scale).cast(DType::kFloat8E4M3FN).cast(DType::kFloat32) * scale).cast(type);
  }
  const Term spread(node,
                    spread_blocks(node, scales.cast(DType::kFloat32).value(), shape, 1, block));
  const Term weights = (b.cast(DType::kFloat32) * spread).cast(type);
  ValueId y = multiply_matrices(node, a.value(), node.transpose(weights.value(), {1, 0}));
  if (node.has_input(4)) {
    const ValueId bias = node.input(4, "bias");
    check_shape(node, bias, "bias", {shape[0]});
    y = node.add("Add", {y, bias});
  }
  node.output(y);
}

}  // namespace

const OpRows kMicrosoftQuantizedLayerOps = {
    {"MatMulNBitsMlp", 1, matmul_nbits_mlp, "K N accuracy_level activation bits block_size epsilon",
     kMicrosoft},
    {"MatMulNBitsQkv", 1, matmul_nbits_qkv, "K Nkv Nq accuracy_level bits block_size epsilon",
     kMicrosoft},
    {.name = "MatMulBlockQuantizedFp8Weight",
     .since_version = 1,
     .import = matmul_fp8,
     .attributes = "block_size",
     .domain = kMicrosoft,
     .takes_float8 = true},
};

}  // namespace sinter::frontend
