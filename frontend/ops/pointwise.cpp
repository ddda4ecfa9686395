// SPDX-License-Identifier: Apache-2.0
// Element-wise operators, except activations.
#include <cmath>
#include <limits>

#include "frontend/model/initializers.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// ONNX operators with the same name and inputs in ir.
void same_unary(NodeContext& node) { node.output(node.add(node.op_type(), {node.x()})); }

void same_binary(NodeContext& node) {
  node.output(node.add(node.op_type(), {node.input(0, "A"), node.input(1, "B")}));
}

/// Before opset 7 broadcasting was explicit: attribute 'broadcast' broadcasts B, from dimension
/// 'axis' of A on if given.
void binary_with_axis(NodeContext& node) {
  const ValueId a = node.input(0, "A");
  ValueId b = node.input(1, "B");
  if (node.attr_int("broadcast", 0) != 0 && node.has_attr("axis")) {
    const std::int64_t axis = node.normalise_axis(node.attr_int("axis"), node.rank(a));
    Shape shape = node.shape(b);
    const std::int64_t behind = node.rank(a) - axis - node.rank(b);
    if (behind < 0)
      node.invalid("B is {}, which does not fit {} from dimension {} on", node.type(b),
                   node.type(a), axis);
    shape.insert(shape.end(), static_cast<std::size_t>(behind), Dim(1));
    b = node.reshape(b, shape);
  }
  node.output(node.add(node.op_type(), {a, b}));
}

void same_variadic(NodeContext& node) {
  const auto inputs = node.all_inputs();
  ValueId result = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i)
    result = node.add(node.op_type(), {result, inputs[i]});
  node.output(result);
}

ValueId sum_of(NodeContext& node, const std::vector<ValueId>& values) {
  ValueId result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) result = node.add("Add", {result, values[i]});
  return result;
}

void sum(NodeContext& node) { node.output(sum_of(node, node.all_inputs())); }

/// In the compute type: the sum may overflow float16 although the mean does not.
void mean(NodeContext& node) {
  std::vector<ValueId> inputs = node.all_inputs();
  const DType type = node.dtype(inputs[0]);
  if (inputs.size() == 1) return node.output(inputs[0]);
  for (ValueId& input : inputs) input = node.widened(input);
  const ValueId total = sum_of(node, inputs);
  const auto count = static_cast<double>(inputs.size());
  const ValueId result = node.add("Div", {total, node.constant(node.dtype(total), count)});
  node.output(node.cast(result, type));
}

/// The input, widened if it is an 8-bit float, which has no arithmetic.
ValueId wide_x(NodeContext& node) {
  return is_float8(node.dtype(node.x())) ? node.cast(node.x(), DType::kFloat32) : node.x();
}

void is_nan(NodeContext& node) { node.output(node.add("IsNan", {wide_x(node)})); }

void is_inf(NodeContext& node) {
  const ValueId x = wide_x(node);
  const bool positive = node.attr_int("detect_positive", 1) != 0;
  const bool negative = node.attr_int("detect_negative", 1) != 0;
  const ValueId infinite = node.add("IsInf", {x});
  if (positive && negative) {
    node.output(infinite);
    return;
  }
  const ValueId zero = node.constant(node.dtype(x), 0);
  // Neither: an infinity never equals zero, so nothing is detected.
  const char* side = positive ? "Greater" : negative ? "Less" : "Equal";
  node.output(node.add("And", {infinite, node.add(side, {x, zero})}));
}

/// Strings are equal where their integers are: one side must be known, since -1 stands for all
/// strings that the model does not have.
void equal(NodeContext& node) {
  const ValueId a = node.input(0, "A"), b = node.input(1, "B");
  if (node.text(0) || node.text(1)) {
    if (!same_text(node.text(0), node.text(1)) || node.text(0)->code != BindingText::Code::kLabels)
      node.unsupported("it compares strings of different lists, or hashes of them");
    if (node.builder().constant_of(a) == nullptr && node.builder().constant_of(b) == nullptr)
      node.unsupported(
          "it compares strings of inputs with each other; only with the model's own are they "
          "compared");
  }
  node.output(node.add("Equal", {a, b}));
}

void mod(NodeContext& node) {
  const ValueId a = node.input(0, "A"), b = node.input(1, "B");
  const bool fmod = node.attr_int("fmod", 0) != 0;
  if (!fmod && is_float(node.dtype(a)) && node.opset() < 28)
    node.assume(
        "its inputs are floats, and attribute 'fmod' is 0: the result has the sign of B, as opset "
        "28 says");
  node.output(node.add(fmod ? "Fmod" : "Mod", {a, b}));
}

/// The result has the base's type, but ir's Pow needs equal types.
void pow(NodeContext& node) {
  const ValueId base = node.input(0, "X"), exponent = node.input(1, "Y");
  const DType type = node.dtype(base);
  if (!is_float(type) && is_float(node.dtype(exponent))) {
    // An integer base may have a fractional exponent, so the power is computed in floats.
    const ValueId power = node.add("Pow", {node.cast(base, node.dtype(exponent)), exponent});
    node.output(node.cast(power, type));
    return;
  }
  node.output(node.add("Pow", {base, node.cast(exponent, type)}));
}

void bit_shift(NodeContext& node) {
  const std::string direction = node.attr_string("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    node.invalid("attribute 'direction' must be LEFT or RIGHT, but is '" + direction + "'");
  node.output(node.add(direction == "LEFT" ? "ShiftLeft" : "ShiftRight",
                       {node.input(0, "X"), node.input(1, "Y")}));
}

DType target_type(NodeContext& node) {
  const auto to = node.attr_int("to");
  const bool in_range = to >= 0 && to <= std::numeric_limits<int>::max();
  return require_dtype(in_range ? static_cast<int>(to) : -1, "the result");
}

void bit_cast(NodeContext& node) {
  const DType to = target_type(node);
  node.output(node.dtype(node.x()) == to ? node.x()
                                         : node.add("BitCast", {node.x()}, {{"to", to}}));
}

void where(NodeContext& node) {
  node.output(
      node.add("Where", {node.input(0, "condition"), node.input(1, "X"), node.input(2, "Y")}));
}

void cast(NodeContext& node) {
  const bool to_strings = node.attr_int("to") == kString;
  if (const TextPtr text = node.text(0); text || to_strings) {
    if (!text || !to_strings)
      node.unsupported(text ? "it makes numbers of strings: encode the column before the model"
                            : "it makes strings of numbers: cast behind the model");
    node.give_text(0, text);
    return node.output(node.x());
  }
  // ignores 'round_mode', which affects only float8e8m0 results
  node.output(node.cast(node.x(), target_type(node), node.saturates()));
}

void cast_like(NodeContext& node) {
  // ignores 'round_mode', which affects only float8e8m0 results
  node.output(node.cast(node.x(), node.dtype(node.input(1, "target_type")), node.saturates()));
}

void tan(NodeContext& node) {
  const ValueId x = node.x();
  node.output(node.add("Div", {node.add("Sin", {x}), node.add("Cos", {x})}));
}

ValueId clip_to(NodeContext& node, ValueId x, std::optional<ValueId> low,
                std::optional<ValueId> high) {
  const bool are_scalars = (!low || node.rank(*low) == 0) && (!high || node.rank(*high) == 0);
  if (low && high && are_scalars && is_float(node.dtype(x)))
    return node.add("Clip", {x, *low, *high});
  // In this order the upper bound wins if the bounds are reversed, as in ONNX.
  if (low) x = node.add("Max", {x, *low});
  if (high) x = node.add("Min", {x, *high});
  return x;
}

void clip_attributes(NodeContext& node) {
  const ValueId x = node.x();
  const auto bound = [&](const char* name) -> std::optional<ValueId> {
    if (!node.has_attr(name)) return std::nullopt;
    return node.constant(node.dtype(x), node.attr_float(name));
  };
  node.output(clip_to(node, x, bound("min"), bound("max")));
}

void clip_inputs(NodeContext& node) {
  const auto bound = [&](std::size_t i, const char* name) -> std::optional<ValueId> {
    if (!node.has_input(i)) return std::nullopt;
    const ValueId value = node.input(i, name);
    if (node.shape(value).empty()) return value;
    if (ir::element_count(node.shape(value)) == Dim(1)) return node.reshape(value, {});
    if (ir::broadcast(node.shape(node.x()), node.shape(value)) != node.shape(node.x()))
      node.invalid("{} must be a scalar, but is {}", name, node.type(value));
    node.assume("{} is {}, no scalar; it is taken as a bound of each element", name,
                node.type(value));
    return value;
  };
  const ValueId x = node.x();
  node.output(clip_to(node, x, bound(1, "min"), bound(2, "max")));
}

// Attributes of old versions: which inputs may be overwritten, and how operands broadcast.
constexpr std::string_view kBefore6 = "consumed_inputs:-5";
constexpr std::string_view kBroadcast = "axis broadcast";
constexpr std::string_view kBefore7 = "axis broadcast consumed_inputs:-5";

}  // namespace

// clang-format off
const OpRows kPointwiseOps = {
    {"Abs", 1, same_unary, kBefore6}, {"Neg", 1, same_unary, kBefore6}, {"Sign", 9, same_unary},
    {"Floor", 1, same_unary, kBefore6}, {"Ceil", 1, same_unary, kBefore6}, {"Round", 11, same_unary},
    {"Sqrt", 1, same_unary, kBefore6, "", Types::kFloats},
    {"Reciprocal", 1, same_unary, kBefore6, "", Types::kFloats}, {"Exp", 1, same_unary, kBefore6, "", Types::kFloats},
    {"Log", 1, same_unary, kBefore6, "", Types::kFloats}, {"Erf", 9, same_unary, "", "", Types::kFloats},
    {"Sin", 7, same_unary, "", "", Types::kFloats}, {"Cos", 7, same_unary, "", "", Types::kFloats},
    {"Tan", 7, tan, "", "", Types::kFloats}, {"Not", 1, same_unary, "", "", Types::kBools},
    {"Acos", 7, same_unary, "", "", Types::kFloats}, {"Asin", 7, same_unary, "", "", Types::kFloats},
    {"Atan", 7, same_unary, "", "", Types::kFloats}, {"Acosh", 9, same_unary, "", "", Types::kFloats},
    {"Asinh", 9, same_unary, "", "", Types::kFloats}, {"Atanh", 9, same_unary, "", "", Types::kFloats},
    {"Cosh", 9, same_unary, "", "", Types::kFloats}, {"Sinh", 9, same_unary, "", "", Types::kFloats},
    {"BitwiseNot", 18, same_unary, "", "", Types::kIntegers},
    {"BitwiseAnd", 18, same_binary, "", "", Types::kIntegers},
    {"BitwiseOr", 18, same_binary, "", "", Types::kIntegers},
    {"BitwiseXor", 18, same_binary, "", "", Types::kIntegers},
    {"BitShift", 11, bit_shift, "direction", "", Types::kIntegers}, {"BitCast", 26, bit_cast, "to", "", Types::kAny},
    {"Add", 1, binary_with_axis, kBefore7}, {"Sub", 1, binary_with_axis, kBefore7},
    {"Mul", 1, binary_with_axis, kBefore7}, {"Div", 1, binary_with_axis, kBefore7},
    {"Pow", 1, binary_with_axis, kBroadcast}, {"And", 1, binary_with_axis, kBroadcast, "", Types::kBools},
    {"Or", 1, binary_with_axis, kBroadcast, "", Types::kBools},
    {"Xor", 1, binary_with_axis, kBroadcast, "", Types::kBools},
    {"Equal", 1, binary_with_axis, kBroadcast, "", Types::kAny}, {"Less", 1, binary_with_axis, kBroadcast},
    {"Greater", 1, binary_with_axis, kBroadcast}, {"Add", 7, same_binary}, {"Sub", 7, same_binary},
    {"Mul", 7, same_binary}, {"Div", 7, same_binary}, {"Mod", 10, mod, "fmod"}, {"Pow", 7, pow},
    {"And", 7, same_binary, "", "", Types::kBools}, {"Or", 7, same_binary, "", "", Types::kBools},
    {"Xor", 7, same_binary, "", "", Types::kBools}, {"Equal", 7, equal, "", "", Types::kAny},
    {"Less", 7, same_binary}, {"LessOrEqual", 12, same_binary}, {"Greater", 7, same_binary},
    {"GreaterOrEqual", 12, same_binary}, {"Min", 6, same_variadic}, {"Max", 6, same_variadic}, {"Sum", 6, sum},
    {"Mean", 6, mean}, {"IsNaN", 9, is_nan, "", "", Types::kFloats},
    {"IsInf", 10, is_inf, "detect_negative detect_positive", "", Types::kFloats},
    {"Where", 9, where, "", "", Types::kAny},
    {"Cast", 6, cast, "round_mode:24- saturate:19- to", "", Types::kAny, FourBits::kReads},
    {"CastLike", 15, cast_like, "round_mode:24- saturate:19-", "", Types::kAny},
    {"Clip", 6, clip_attributes, "max min"}, {"Clip", 11, clip_inputs},
};
// clang-format on

}  // namespace sinter::frontend
