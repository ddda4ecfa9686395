// SPDX-License-Identifier: Apache-2.0
// Activation functions, with the formulas of the ONNX operator specification.
#include <cmath>

#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// Shorthand for expressions over one value and constants of its type.
class Formula {
 public:
  explicit Formula(NodeContext& node) : node_(node), x_(node.x()) {}

  ValueId x() const { return x_; }
  ValueId c(double value) { return node_.constant(node_.dtype(x_), value); }
  ValueId operator()(const char* op, ValueId a) { return node_.add(op, {a}); }
  ValueId operator()(const char* op, ValueId a, ValueId b) { return node_.add(op, {a, b}); }
  ValueId operator()(const char* op, ValueId a, ValueId b, ValueId c) {
    return node_.add(op, {a, b, c});
  }
  ValueId select(ValueId condition, ValueId a, ValueId b) {
    return node_.add("Where", {condition, a, b});
  }
  ValueId is_negative() { return (*this)("Less", x_, c(0)); }

 private:
  NodeContext& node_;
  ValueId x_;
};

void same(NodeContext& node) { node.output(node.add(node.op_type(), {node.x()})); }

void leaky_relu(NodeContext& node) {
  Formula f(node);
  node.output(f("LeakyRelu", f.x(), f.c(node.attr_float("alpha", 0.01))));
}

void prelu(NodeContext& node) {
  Formula f(node);
  ValueId slope = node.input(1, "slope");
  if (node.opset() < 7 && node.rank(slope) == 1 && node.rank(f.x()) > 1) {  // one slope per channel
    Shape channels(static_cast<std::size_t>(node.rank(f.x())), Dim(1));
    channels[1] = node.shape(slope)[0];
    slope = node.reshape(slope, channels);
  }
  node.output(f.select(f.is_negative(), f("Mul", f.x(), slope), f.x()));
}

/// Soft thresholding: moves x towards zero by `bias` if |x| > `lambd`, else gives zero. Computed in
/// floats, since the thresholds are floats for any type of x.
void shrink(NodeContext& node) {
  const ValueId input = node.x();
  const DType type = node.dtype(input);
  const ValueId x = is_float(type) ? input : node.cast(input, DType::kFloat32);
  const auto number = [&](double value) { return node.constant(node.dtype(x), value); };
  const double bias = node.attr_float("bias", 0), lambd = node.attr_float("lambd", 0.5);
  const ValueId right = node.add("Where", {node.add("Greater", {x, number(lambd)}),
                                           node.add("Sub", {x, number(bias)}), number(0)});
  const ValueId result = node.add(
      "Where", {node.add("Less", {x, number(-lambd)}), node.add("Add", {x, number(bias)}), right});
  node.output(node.cast(result, type));
}

void thresholded_relu(NodeContext& node) {
  Formula f(node);
  const ValueId above = f("Greater", f.x(), f.c(node.attr_float("alpha", 1.0)));
  node.output(f.select(above, f.x(), f.c(0)));
}

void hard_sigmoid(NodeContext& node) {
  Formula f(node);
  node.output(f("HardSigmoid", f.x(), f.c(node.attr_float("alpha", 0.2)),
                f.c(node.attr_float("beta", 0.5))));
}

void hard_swish(NodeContext& node) {
  Formula f(node);
  node.output(f("HardSwish", f.x(), f.c(1.0 / 6.0), f.c(0.5)));
}

/// alpha * (exp(x / scale) - 1).
ValueId exponential_tail(Formula& f, double alpha, double scale) {
  const ValueId exponent = scale == 1 ? f.x() : f("Div", f.x(), f.c(scale));
  return f("Mul", f("Sub", f("Exp", exponent), f.c(1)), f.c(alpha));
}

void elu(NodeContext& node) {
  Formula f(node);
  const double alpha = node.attr_float("alpha", 1.0);
  node.output(f.select(f.is_negative(), exponential_tail(f, alpha, 1), f.x()));
}

void celu(NodeContext& node) {
  Formula f(node);
  const double alpha = node.attr_float("alpha", 1.0);
  node.output(f.select(f.is_negative(), exponential_tail(f, alpha, alpha), f.x()));
}

void selu(NodeContext& node) {
  Formula f(node);
  const double alpha = node.attr_float("alpha", 1.67326319217681884765625);
  const double gamma = node.attr_float("gamma", 1.05070102214813232421875);
  node.output(
      f("Mul", f.select(f.is_negative(), exponential_tail(f, alpha, 1), f.x()), f.c(gamma)));
}

void mish(NodeContext& node) {
  Formula f(node);
  node.output(f("Mul", f.x(), f("Tanh", f("Softplus", f.x()))));
}

/// x * sigmoid(alpha * x) of the first input.
ValueId swished(NodeContext& node) {
  Formula f(node);
  const double alpha = node.attr_float("alpha", 1.0);
  return alpha == 1 ? f("Silu", f.x()) : f("Mul", f.x(), f("Sigmoid", f("Mul", f.x(), f.c(alpha))));
}

void swish(NodeContext& node) { node.output(swished(node)); }

void swiglu(NodeContext& node) {
  const ValueId gate = node.input(0, "A"), linear = node.input(1, "B");
  if (node.shape(gate) != node.shape(linear))
    node.invalid("A and B must have one shape, but are {} and {}", node.type(gate),
                 node.type(linear));
  node.output(node.add("Mul", {swished(node), linear}));
}

void gelu(NodeContext& node) {
  const std::string approximate = node.attr_string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    node.invalid("attribute 'approximate' must be 'none' or 'tanh', but is '" + approximate + "'");
  node.output(node.add(approximate == "tanh" ? "GeluTanh" : "Gelu", {node.x()}));
}

}  // namespace

const OpRows kActivationOps = {
    {"Relu", 1, same, "consumed_inputs:-5", "", Types::kNumbers},
    {"Tanh", 1, same, "consumed_inputs:-5"},
    {"Sigmoid", 1, same, "consumed_inputs:-5"},
    {"Gelu", 20, gelu, "approximate"},
    {"LeakyRelu", 1, leaky_relu, "alpha consumed_inputs:-5"},
    {"PRelu", 1, prelu, "consumed_inputs:-5", "", Types::kNumbers},
    {"Shrink", 9, shrink, "bias lambd", "", Types::kNumbers},
    // ONNX Runtime also takes it in models of older opsets.
    {"ThresholdedRelu", 1, thresholded_relu, "alpha"},
    {"HardSigmoid", 1, hard_sigmoid, "alpha beta consumed_inputs:-5"},
    {"HardSwish", 14, hard_swish},
    {"Elu", 1, elu, "alpha consumed_inputs:-5"},
    {"Celu", 12, celu, "alpha"},
    {"Selu", 1, selu, "alpha consumed_inputs:-5 gamma"},
    {"Softplus", 1, same},
    {"Softsign", 1, same},
    {"Mish", 18, mish},
    {"Swish", 24, swish, "alpha"},
    {"SwiGLU", 28, swiglu, "alpha"},
};

}  // namespace sinter::frontend
