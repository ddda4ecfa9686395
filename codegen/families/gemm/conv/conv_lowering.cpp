// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <sinter/error.h>

#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {
namespace {

using plan::fb::Activation;

struct ActivationRow {
  std::string_view op;
  Activation activation;
};
constexpr ActivationRow kActivations[] = {
    {"Relu", Activation::Relu},
    {"Gelu", Activation::GeluErf},
    {"GeluTanh", Activation::GeluTanh},
    {"Sigmoid", Activation::Sigmoid},
    {"Tanh", Activation::Tanh},
    {"Silu", Activation::Silu},
    {"HardSigmoid", Activation::HardSigmoid},
    {"HardSwish", Activation::HardSwish},
    {"LeakyRelu", Activation::LeakyRelu},
    {"Clip", Activation::Clip},
};

std::vector<std::uint64_t> sizes(const Node& node, std::string_view name) {
  const auto& values = node.attrs.get_ints(name);
  return {values.begin(), values.end()};
}

class ConvLowering {
 public:
  ConvLowering(const Graph& body, Buffers inputs, ExprTable& exprs)
      : body_(body), inputs_(inputs), exprs_(exprs), conv_(find_conv()) {}

  plan::fb::ConvStepT lower(std::uint32_t output, bool tf32) {
    step_.input = buffer_of(conv_.inputs[0]);
    step_.weight = buffer_of(conv_.inputs[1]);
    if (conv_.inputs.size() > 2) step_.bias = static_cast<std::int32_t>(buffer_of(conv_.inputs[2]));
    step_.output = output;
    step_.input_shape = shape_of(conv_.inputs[0]);
    step_.weight_shape = shape_of(conv_.inputs[1]);
    step_.output_shape = shape_of(conv_.outputs[0]);
    step_.strides = sizes(conv_, "strides");
    step_.dilations = sizes(conv_, "dilations");
    step_.pads_begin = sizes(conv_, "pads_begin");
    step_.pads_end = sizes(conv_, "pads_end");
    step_.group = static_cast<std::uint64_t>(conv_.attrs.get_int("group"));
    step_.channels_last = conv_.attrs.get_int("channels_last") == 1;
    if (tf32 && body_.type(conv_.outputs[0]).dtype == DType::kFloat32)
      step_.math = plan::fb::MathMode::Tf32;
    follow();
    return std::move(step_);
  }

 private:
  const Node& find_conv() const {
    for (const Node& node : body_.nodes())
      if (node.op->name == "Conv") return node;
    throw Error(ErrorCode::kInternal, "a conv region without a Conv");
  }

  std::uint32_t buffer_of(ValueId value) const {
    const auto at = body_.input_number(value);
    if (!at)
      throw Error(ErrorCode::kUnsupported,
                  describe(conv_) + ": an operand is not an input of its region");
    return inputs_[*at];
  }

  std::vector<std::uint32_t> shape_of(ValueId value) {
    std::vector<std::uint32_t> shape;
    for (const Dim& dim : body_.type(value).shape) shape.push_back(exprs_.intern(dim));
    return shape;
  }

  /// Reads the nodes after the convolution.
  void follow() {
    ValueId result = conv_.outputs[0];
    for (const Node& node : body_.nodes()) {
      if (&node == &conv_) continue;
      const bool open = step_.activation == Activation::None;
      if (!open || !(is_residual(node, result) || is_activation(node, result)))
        throw Error(ErrorCode::kUnsupported,
                    describe(node) + " cannot follow a convolution within one library call");
      result = node.outputs[0];
    }
    if (body_.outputs()[0] != result)
      throw Error(ErrorCode::kUnsupported,
                  describe(conv_) + ": the region's output is not the convolution's result");
  }

  bool is_residual(const Node& node, ValueId result) {
    if (node.op->name != "Add" || step_.residual >= 0 || node.inputs[0] == node.inputs[1])
      return false;
    const bool first = node.inputs[0] == result;
    const ValueId other = node.inputs[first ? 1 : 0];
    if ((!first && node.inputs[1] != result) || body_.type(other) != body_.type(result))
      return false;
    step_.residual = static_cast<std::int32_t>(buffer_of(other));
    return true;
  }

  bool is_activation(const Node& node, ValueId result) {
    const auto row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                  [&](const auto& row) { return row.op == node.op->name; });
    if (row == std::end(kActivations) || node.inputs[0] != result) return false;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const auto& constant = body_.value(node.inputs[i]).constant;
      if (!constant || constant->element_count() != 1) return false;
      (i == 1 ? step_.activation_a : step_.activation_b) = static_cast<float>(constant->at(0));
    }
    step_.activation = row->activation;
    return true;
  }

  const Graph& body_;
  Buffers inputs_;
  ExprTable& exprs_;
  const Node& conv_;
  plan::fb::ConvStepT step_;
};

}  // namespace

plan::fb::ConvStepT lower_conv(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               bool tf32) {
  if (outputs.size() != 1) throw Error(ErrorCode::kInternal, "a conv region with several outputs");
  return ConvLowering(body, inputs, exprs).lower(outputs[0], tf32);
}

}  // namespace sinter::codegen
