// SPDX-License-Identifier: Apache-2.0
// Quantization to 8-bit floats in the domain of TensorRT's Model Optimizer: E4M3FN with one scale
// per tensor, saturated.
#include "frontend/ops/quantization/quantized.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/transforms.h"

namespace sinter::frontend {

using ir::Tensor;

const ir::Transform kFloat8OfCodes = {
    "float8_of_codes",
    [](const ir::Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 1) && inputs[0].dtype() == DType::kUInt8;
    },
    [](const ir::Attrs&, std::span<const Tensor> inputs) {
      return std::vector{Tensor(DType::kFloat8E4M3FN, inputs[0].shape(),
                                ir::Buffer::copy_of(inputs[0].hold().bytes))};
    }};

namespace {

/// The scale of a whole tensor.
Term tensor_scale(NodeContext& node) {
  const Term scale = one_number(node, 1, "scale");
  check_dtype(node, scale.value(), "scale", {DType::kFloat32, DType::kFloat16, DType::kBFloat16});
  return scale;
}

void quantize_float8(NodeContext& node) {
  const ValueId x = node.x();
  check_dtype(node, x, "its input", {DType::kFloat32, DType::kFloat16, DType::kBFloat16});
  const Term scale = tensor_scale(node).cast(DType::kFloat32);
  node.output(as_float(node, x).with("Quotient", scale).cast(DType::kFloat8E4M3FN).value());
}

void dequantize_float8(NodeContext& node) {
  ValueId x = node.x();
  // The model may store quantized weights as bytes.
  if (const Tensor* codes = node.builder().constant_of(x);
      codes != nullptr && codes->dtype() == DType::kUInt8)
    x = node.builder().constant(ir::apply(kFloat8OfCodes, {}, std::span(codes, 1)).front());
  check_dtype(node, x, "its input", {DType::kFloat8E4M3FN});
  const Term scale = tensor_scale(node);
  node.output((as_float(node, x) * scale.cast(DType::kFloat32)).cast(scale.dtype()).value());
}

}  // namespace

const OpRows kTrtOps = {
    {"TRT_FP8QuantizeLinear", 1, quantize_float8, "", kTrt},
    {"TRT_FP8DequantizeLinear", 1, dequantize_float8, "", kTrt, Types::kOfFamily,
     FourBits::kRefuses, 0, true},
};

}  // namespace sinter::frontend
