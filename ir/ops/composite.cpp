// SPDX-License-Identifier: Apache-2.0
// Operators that are kept if the target has them, and otherwise decompose into simpler ones.
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_norm(const Attrs& attrs, Types inputs) {
  require_same_dtype(inputs);
  require_float(inputs);
  const Shape& shape = inputs[0].shape;
  const auto axis = static_cast<std::size_t>(axis_attr(attrs, "axis", shape));
  if (attrs.get_float("epsilon") < 0)
    invalid(fmt::format("epsilon {} is negative", attrs.get_float("epsilon")));
  const Shape normalised(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
  for (const TensorType& parameter : inputs.subspan(1)) {
    // Dimensions before the normalized ones must be 1.
    const Shape& own = parameter.shape;
    const auto unfit = [&] {
      return fmt::format("scale and bias must broadcast to the normalised dimensions {}, found {}",
                         to_string(normalised), list_types(inputs));
    };
    if (own.size() > shape.size()) invalid(unfit());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t d = shape.size() - own.size() + i;
      if (own[i] != Dim(1)) require_equal(own[i], d >= axis ? shape[d] : Dim(1), unfit);
    }
  }
  return {inputs[0]};
}

std::vector<TensorType> infer_softmax(const Attrs& attrs, Types inputs) {
  require_float(inputs);
  axis_attr(attrs, "axis", inputs[0].shape);
  return {inputs[0]};
}

Attrs keeping(Ints axes) {
  return {{"axes", Attr(std::move(axes))}, {"keepdims", Attr(std::int64_t{1})}};
}

/// Attributes of a reduction from dimension "axis" to the last.
Attrs normalised_axes(const GraphBuilder& b, const Node& node, ValueId x) {
  const auto rank = static_cast<std::int64_t>(b.type(x).shape.size());
  Ints axes(static_cast<std::size_t>(rank - node.attrs.get_int("axis")));
  std::iota(axes.begin(), axes.end(), node.attrs.get_int("axis"));
  return keeping(std::move(axes));
}

/// `value` cast to `type`. Inside a region a cast to the compute type is free.
ValueId as(GraphBuilder& b, ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", Attr(type)}});
}

/// `value` in its compute type. Statistics of 16-bit values must not be rounded at the end of a
/// kernel: squares and sums easily exceed float16.
ValueId widened(GraphBuilder& b, ValueId value) {
  return as(b, value, compute_type(b.type(value).dtype));
}

/// 1 / sqrt(variance + epsilon).
ValueId inverse_deviation(GraphBuilder& b, const Node& node, ValueId variance) {
  const ValueId epsilon = b.scalar(b.type(variance).dtype, node.attrs.get_float("epsilon"));
  return b.add("Rsqrt", {b.add("Add", {variance, epsilon})});
}

/// Two passes: the mean, then the mean of squared deviations, which avoids cancellation.
std::vector<ValueId> decompose_layer_norm(GraphBuilder& b, const Node& node,
                                          std::span<const ValueId> inputs) {
  const Attrs axes = normalised_axes(b, node, inputs[0]);
  const ValueId x = widened(b, inputs[0]);
  const ValueId deviation = b.add("Sub", {x, b.add("ReduceMean", {x}, axes)});
  const ValueId variance = b.add("ReduceMean", {b.add("Square", {deviation})}, axes);
  const ValueId normal = b.add("Mul", {deviation, inverse_deviation(b, node, variance)});
  const ValueId scaled = b.add("Mul", {normal, widened(b, inputs[1])});
  const ValueId result = inputs.size() > 2 ? b.add("Add", {scaled, widened(b, inputs[2])}) : scaled;
  return {as(b, result, b.type(inputs[0]).dtype)};
}

std::vector<ValueId> decompose_rms_norm(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> inputs) {
  const Attrs axes = normalised_axes(b, node, inputs[0]);
  const ValueId x = widened(b, inputs[0]);
  const ValueId square = b.add("ReduceMean", {b.add("Square", {x})}, axes);
  const ValueId normal = b.add("Mul", {x, inverse_deviation(b, node, square)});
  const ValueId scaled = b.add("Mul", {normal, widened(b, inputs[1])});
  return {as(b, scaled, b.type(inputs[0]).dtype)};
}

/// Subtracts the maximum first, so that no exponential overflows. Exponentials are at most 1; the
/// type's precision suffices.
std::vector<ValueId> decompose_softmax(GraphBuilder& b, const Node& node,
                                       std::span<const ValueId> inputs) {
  const Attrs axes = keeping({node.attrs.get_int("axis")});
  const ValueId max = b.add("ReduceMax", {inputs[0]}, axes);
  const ValueId exp = widened(b, b.add("Exp", {b.add("Sub", {inputs[0], max})}));
  const ValueId weights = b.add("Div", {exp, b.add("ReduceSum", {exp}, axes)});
  return {as(b, weights, b.type(inputs[0]).dtype)};
}

std::vector<TensorType> infer_variance(const Attrs& attrs, Types inputs) {
  require_float(inputs);
  return infer_reduce(attrs, inputs);
}

/// Two passes, as for LayerNorm.
std::vector<ValueId> decompose_variance(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> inputs) {
  const ValueId x = widened(b, inputs[0]);
  const ValueId mean = b.add("ReduceMean", {x}, keeping(node.attrs.get_ints("axes")));
  const ValueId square = b.add("Square", {b.add("Sub", {x, mean})});
  return {as(b, b.add("ReduceMean", {square}, node.attrs), b.type(inputs[0]).dtype)};
}

OpDef composite(const char* name, int min_inputs, int max_inputs, std::vector<AttrSpec> attrs,
                std::vector<TensorType> (*infer)(const Attrs&, Types), Evaluate evaluate,
                Decompose decompose) {
  return {.name = name,
          .kind = OpKind::kComposite,
          .min_inputs = min_inputs,
          .max_inputs = max_inputs,
          .attrs = std::move(attrs),
          .infer = infer,
          .evaluate = std::move(evaluate),
          .detail = CompositeDef{std::move(decompose)}};
}

}  // namespace

std::vector<OpDef> composite_ops() {
  const AttrSpec axis{"axis", AttrKind::kInt, std::nullopt};
  const AttrSpec epsilon{"epsilon", AttrKind::kFloat, Attr(1e-5)};
  OpDef softmax = composite("Softmax", 1, 1, {axis}, infer_softmax, reference::evaluate_softmax,
                            decompose_softmax);
  softmax.numerics.operands = {Rounding::kExponent};
  return {
      composite("LayerNorm", 2, 3, {axis, epsilon}, infer_norm, reference::evaluate_layer_norm,
                decompose_layer_norm),
      composite("RmsNorm", 2, 2, {axis, epsilon}, infer_norm, reference::evaluate_rms_norm,
                decompose_rms_norm),
      std::move(softmax),
      composite("Variance", 1, 1,
                {{"axes", AttrKind::kInts, std::nullopt},
                 {"keepdims", AttrKind::kInt, Attr(std::int64_t{1})}},
                infer_variance, reference::evaluate_variance, decompose_variance),
  };
}

/// The fused region: a node defined by its body.
std::vector<OpDef> fused_ops() {
  OpDef op{.name = "Fused",
           .kind = OpKind::kFused,
           .min_inputs = 0,
           .max_inputs = -1,
           .attrs = {{"kind", AttrKind::kString, std::nullopt}},
           .has_body = true};
  // GraphBuilder takes a fused node's types, and the evaluator its values, from the body.
  op.infer = [](const Attrs&, Types) -> std::vector<TensorType> {
    throw Error(ErrorCode::kInternal, "result types come from the body");
  };
  return {op};
}

}  // namespace sinter::ir::ops
