// Operators that are kept while a dedicated form exists and decompose into simpler ones.
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

using Types = std::span<const TensorType>;

std::vector<TensorType> infer_norm(const Attrs& attrs, Types inputs) {
  require_same_dtype(inputs);
  require_float(inputs);
  const Shape& shape = inputs[0].shape;
  const auto axis = static_cast<std::size_t>(axis_attr(attrs, "axis", shape));
  if (attrs.get_float("epsilon") < 0)
    invalid(fmt::format("epsilon {} is negative", attrs.get_float("epsilon")));
  const Shape normalised(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
  for (const TensorType& parameter : inputs.subspan(1)) {
    // Dimensions before the normalised ones may only be ones.
    const Shape& own = parameter.shape;
    bool fits = own.size() <= shape.size();
    for (std::size_t i = 0; fits && i < own.size(); ++i) {
      const std::size_t d = shape.size() - own.size() + i;
      fits = own[i] == Dim(1) || (d >= axis && own[i] == shape[d]);
    }
    if (!fits)
      invalid(fmt::format("scale and bias must broadcast to the normalised dimensions {}, found {}",
                          to_string(normalised), list_types(inputs)));
  }
  return {inputs[0]};
}

std::vector<TensorType> infer_softmax(const Attrs& attrs, Types inputs) {
  require_float(inputs);
  axis_attr(attrs, "axis", inputs[0].shape);
  return {inputs[0]};
}

Attrs keeping(std::vector<std::int64_t> axes) {
  return {{"axes", Attr(std::move(axes))}, {"keepdims", Attr(std::int64_t{1})}};
}

/// Attributes of a reduction over the dimensions from attribute "axis" to the last.
Attrs normalised_axes(const GraphBuilder& b, const Node& node, ValueId x) {
  const auto rank = static_cast<std::int64_t>(b.type(x).shape.size());
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank - node.attrs.get_int("axis")));
  std::iota(axes.begin(), axes.end(), node.attrs.get_int("axis"));
  return keeping(std::move(axes));
}

/// 1 / sqrt(variance + epsilon). A 16-bit type may be too narrow for epsilon (1e-12 is zero in
/// float16), so the sum is taken in float32; inside a region these casts cost nothing.
ValueId inverse_deviation(GraphBuilder& b, const Node& node, ValueId variance) {
  const DType type = b.type(variance).dtype, wide = compute_type(type);
  const auto cast = [&](ValueId value, DType to) {
    return wide == type ? value : b.add("Cast", {value}, {{"to", Attr(to)}});
  };
  const ValueId epsilon = b.scalar(wide, node.attrs.get_float("epsilon"));
  return cast(b.add("Rsqrt", {b.add("Add", {cast(variance, wide), epsilon})}), type);
}

/// Two passes: the mean, then the mean of the squared deviations from it, which does not cancel.
std::vector<ValueId> decompose_layer_norm(GraphBuilder& b, const Node& node,
                                          std::span<const ValueId> inputs) {
  const Attrs axes = normalised_axes(b, node, inputs[0]);
  const ValueId mean = b.add("ReduceMean", {inputs[0]}, axes);
  const ValueId deviation = b.add("Sub", {inputs[0], mean});
  const ValueId variance = b.add("ReduceMean", {b.add("Square", {deviation})}, axes);
  const ValueId normal = b.add("Mul", {deviation, inverse_deviation(b, node, variance)});
  const ValueId scaled = b.add("Mul", {normal, inputs[1]});
  return {inputs.size() > 2 ? b.add("Add", {scaled, inputs[2]}) : scaled};
}

std::vector<ValueId> decompose_rms_norm(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> inputs) {
  const Attrs axes = normalised_axes(b, node, inputs[0]);
  const ValueId square = b.add("ReduceMean", {b.add("Square", {inputs[0]})}, axes);
  const ValueId normal = b.add("Mul", {inputs[0], inverse_deviation(b, node, square)});
  return {b.add("Mul", {normal, inputs[1]})};
}

/// The maximum is subtracted first, so that no exponential overflows.
std::vector<ValueId> decompose_softmax(GraphBuilder& b, const Node& node,
                                       std::span<const ValueId> inputs) {
  const Attrs axes = keeping({node.attrs.get_int("axis")});
  const ValueId max = b.add("ReduceMax", {inputs[0]}, axes);
  const ValueId exp = b.add("Exp", {b.add("Sub", {inputs[0], max})});
  return {b.add("Div", {exp, b.add("ReduceSum", {exp}, axes)})};
}

std::vector<TensorType> infer_variance(const Attrs& attrs, Types inputs) {
  require_float(inputs);
  return infer_reduce(attrs, inputs);
}

/// Two passes, as for LayerNorm.
std::vector<ValueId> decompose_variance(GraphBuilder& b, const Node& node,
                                        std::span<const ValueId> inputs) {
  const ValueId mean = b.add("ReduceMean", {inputs[0]}, keeping(node.attrs.get_ints("axes")));
  const ValueId deviation = b.add("Sub", {inputs[0], mean});
  return {b.add("ReduceMean", {b.add("Square", {deviation})}, node.attrs)};
}

OpDef composite(const char* name, int min_inputs, int max_inputs, std::vector<AttrSpec> attrs,
                std::vector<TensorType> (*infer)(const Attrs&, Types), Evaluate evaluate,
                Decompose decompose) {
  OpDef op;
  op.name = name;
  op.kind = OpKind::kComposite;
  op.min_inputs = min_inputs;
  op.max_inputs = max_inputs;
  op.attrs = std::move(attrs);
  op.infer = infer;
  op.evaluate = std::move(evaluate);
  op.detail = CompositeDef{std::move(decompose)};
  return op;
}

}  // namespace

std::vector<OpDef> composite_ops() {
  const AttrSpec axis{"axis", AttrKind::kInt, std::nullopt};
  const AttrSpec epsilon{"epsilon", AttrKind::kFloat, Attr(1e-5)};
  return {
      composite("LayerNorm", 2, 3, {axis, epsilon}, infer_norm, reference::evaluate_layer_norm,
                decompose_layer_norm),
      composite("RmsNorm", 2, 2, {axis, epsilon}, infer_norm, reference::evaluate_rms_norm,
                decompose_rms_norm),
      composite("Softmax", 1, 1, {axis}, infer_softmax, reference::evaluate_softmax,
                decompose_softmax),
      composite("Variance", 1, 1,
                {{"axes", AttrKind::kInts, std::nullopt},
                 {"keepdims", AttrKind::kInt, Attr(std::int64_t{1})}},
                infer_variance, reference::evaluate_variance, decompose_variance),
  };
}

}  // namespace sinter::ir::ops
