// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling of com.microsoft: with activations, and channels last.
#include "frontend/ops/fused_activation.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/windows.h"

namespace sinter::frontend {
namespace {

/// Adds the node's residual Z and activation to `y`.
ValueId with_rest(NodeContext& node, ValueId y) {
  if (node.has_input(3)) {
    const ValueId z = node.input(3, "Z");
    check_shape(node, z, "Z", node.shape(y));
    y = node.add("Add", {y, z});
  }
  const auto numbers = node.attr_floats("activation_params").value_or(std::vector<double>());
  return fused_activation(node, y, node.attr_string("activation", ""), numbers);
}

void fused_conv(NodeContext& node) { node.output(with_rest(node, import_conv(node))); }

/// Weights have Conv's layout.
void nhwc_fused_conv(NodeContext& node) {
  const ValueId x = channels_first(node, node.input(0, "X"));
  node.output(with_rest(node, channels_last(node, import_conv(node, x, node.input(1, "W")))));
}

/// Weights are [M, kernel.., C / group], as ONNX Runtime's kernel reads and its optimizer writes
/// them.
void nhwc_conv(NodeContext& node) {
  const ValueId x = channels_first(node, node.input(0, "X"));
  const ValueId weights = channels_first(node, node.input(1, "W"));
  node.output(channels_last(node, import_conv(node, x, weights)));
}

void nhwc_max_pool(NodeContext& node) {
  node.output(channels_last(node, maximum_of_windows(node, channels_first(node, node.x()))));
}

constexpr char kFusedConv[] =
    "activation activation_params auto_pad dilations group kernel_shape pads strides";

}  // namespace

const OpRows kMicrosoftConvolutionOps = {
    {"FusedConv", 1, fused_conv, kFusedConv, kMicrosoft},
    {"NhwcFusedConv", 1, nhwc_fused_conv, kFusedConv, kMicrosoft},
    {"NhwcConv", 1, nhwc_conv, "auto_pad dilations group kernel_shape pads strides", kMicrosoft},
    {"NhwcMaxPool", 1, nhwc_max_pool, "auto_pad ceil_mode dilations kernel_shape pads strides",
     kMicrosoft, Types::kNumbers},
};

}  // namespace sinter::frontend
