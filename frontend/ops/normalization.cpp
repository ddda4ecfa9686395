// SPDX-License-Identifier: Apache-2.0
// Normalizations and softmax.
#include <algorithm>

#include "frontend/ops/normalisation.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

void require_channels(NodeContext& node, ValueId x) {
  if (node.rank(x) < 2) node.invalid("input must be [N, C, ..], but is {}", node.type(x));
}

/// (x - mean) / sqrt(var + epsilon) over dimensions `axis`.. of x.
ValueId normalise(NodeContext& node, ValueId x, std::int64_t axis) {
  const DType dtype = node.dtype(x);
  return node.add("LayerNorm", {x, node.constant(dtype, 1), node.constant(dtype, 0)},
                  {{"axis", axis}, {"epsilon", node.attr_float("epsilon", 1e-5f)}});
}

/// [N, C, ..] as [N, groups, C / groups, ..].
ValueId in_groups(NodeContext& node, ValueId x, std::int64_t groups) {
  require_channels(node, x);
  Shape shape = node.shape(x);
  const auto channels = groups > 0 ? ir::divide_exactly(shape[1], Dim(groups)) : std::nullopt;
  if (!channels) node.invalid("{} channels cannot be split into {} groups", shape[1], groups);
  shape[1] = *channels;
  shape.insert(shape.begin() + 1, Dim(groups));
  return node.reshape(x, shape);
}

void refuse_outputs_from(NodeContext& node, std::size_t first,
                         std::initializer_list<const char*> names) {
  std::size_t i = first;
  for (const char* name : names) {
    if (node.output_is_used(i))
      node.unsupported("its output {} ({}) is used; only output 0 is supported", i, name);
    ++i;
  }
}

void layer_normalization(NodeContext& node) {
  // ignores 'stash_type': statistics are always float32 or wider
  const ValueId x = node.x(), scale = node.input(1, "Scale");
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis", -1), node.rank(x));
  const ValueId bias = node.has_input(2) ? node.input(2, "B") : node.constant(node.dtype(x), 0);
  const double epsilon = node.attr_float("epsilon", 1e-5f);
  // Scale and bias may vary along the dimensions in front, too: ONNX asks that they broadcast.
  const auto is_of_rows = [&](ValueId value) {
    const Shape own = node.shape(value);
    const auto leading = std::ssize(own) - (node.rank(x) - axis);
    return std::any_of(own.begin(), own.begin() + std::max<std::ptrdiff_t>(0, leading),
                       [](const Dim& dim) { return dim != Dim(1); });
  };
  const auto norm = [&](ValueId by, ValueId and_by) {
    return node.add("LayerNorm", {x, by, and_by}, {{"axis", axis}, {"epsilon", epsilon}});
  };
  if (is_of_rows(scale) || is_of_rows(bias)) {
    const DType dtype = node.dtype(x);
    const ValueId normal = norm(node.constant(dtype, 1), node.constant(dtype, 0));
    const ValueId y = node.add("Add", {node.add("Mul", {normal, scale}), bias});
    if (node.shape(y) != node.shape(x))
      node.invalid("Scale and B do not broadcast to X: {}, {} and {}", node.type(scale),
                   node.type(bias), node.type(x));
    node.output(y);
  } else {
    node.output(norm(scale, bias));
  }
  output_statistics(node, x, axis, epsilon, 1, 2);
}

/// Exporters normalise heads as rows of [batch, tokens * heads, size], a view of [batch, tokens,
/// heads * size]. That with a dimension for the heads, in which tokens keep theirs; else `x`.
ValueId with_tokens(NodeContext& node, ValueId x, std::int64_t axis) {
  const ir::Node* view = node.builder().producer(x);
  if (view == nullptr || view->op->name != "Reshape" || axis + 1 != node.rank(x)) return x;
  const ValueId source = view->inputs[0];
  Shape shape = node.shape(source);
  const Dim size = node.shape(x).back();
  const auto heads =
      shape.empty() || node.rank(x) < 2 ? std::nullopt : ir::divide_exactly(shape.back(), size);
  if (!heads || *heads == Dim(1)) return x;
  shape.back() = *heads;
  shape.push_back(size);
  return node.reshape(source, shape);
}

void rms_normalization(NodeContext& node) {
  const ValueId x = node.x();
  const ValueId scale = node.cast(node.input(1, "scale"), node.dtype(x));
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis", -1), node.rank(x));
  const ValueId rows = with_tokens(node, x, axis);
  const ValueId y = node.add("RmsNorm", {rows, scale},
                             {{"axis", node.rank(rows) - node.rank(x) + axis},
                              {"epsilon", node.attr_float("epsilon", 1e-5f)}});
  node.output(node.reshape(y, node.shape(x)));
}

/// scale * (x - mean) / sqrt(var + epsilon) + bias, folded to one factor and one summand per
/// channel.
void batch_normalization(NodeContext& node) {
  // ignores 'is_test' of opset 6: only inference is supported.
  if (node.opset() >= 14 && node.attr_int("training_mode", 0) != 0)
    node.unsupported("training_mode is 1; only inference is supported");
  const bool by_element = node.opset() < 9 && node.attr_int("spatial", 1) == 0;
  refuse_outputs_from(node, 1, {"mean", "var", "saved_mean", "saved_var"});
  ValueId x = node.x();
  const Shape shape = node.shape(x);
  if (shape.size() == 1) x = node.reshape(x, {shape[0], Dim(1)});  // one channel
  require_channels(node, x);
  const auto statistic = [&](std::size_t i, const char* what) {
    if (!by_element) return per_channel(node, i, what, x);
    const ValueId value = node.cast(node.input(i, what), node.dtype(x));
    check_shape(node, value, what, Shape(shape.begin() + 1, shape.end()));
    return value;
  };
  const ValueId scale = statistic(1, "scale"), bias = statistic(2, "B");
  const ValueId mean = statistic(3, "mean"), variance = statistic(4, "var");
  const ValueId epsilon = node.constant(node.dtype(x), node.attr_float("epsilon", 1e-5f));
  const ValueId deviation = node.add("Sqrt", {node.add("Add", {variance, epsilon})});
  const ValueId factor = node.add("Div", {scale, deviation});
  const ValueId summand = node.add("Sub", {bias, node.add("Mul", {mean, factor})});
  node.output(node.reshape(node.add("Add", {node.add("Mul", {x, factor}), summand}), shape));
}

ValueId scale_and_shift(NodeContext& node, ValueId normal, ValueId x) {
  const ValueId scaled = node.add("Mul", {normal, per_channel(node, 1, "scale", x)});
  return node.add("Add", {scaled, per_channel(node, 2, "bias", x)});
}

void instance_normalization(NodeContext& node) {
  const ValueId x = node.x();
  if (node.rank(x) < 3)
    node.invalid("input must be [N, C, spatial dimensions..], but is {}", node.type(x));
  node.output(scale_and_shift(node, normalise(node, x, 2), x));
}

void group_normalization(NodeContext& node) {
  const ValueId x = node.x();
  const ValueId normal = normalise_groups(node, x, node.attr_int("num_groups"));
  node.output(scale_and_shift(node, node.reshape(normal, node.shape(x)), x));
}

/// Before opset 21 scale and bias have one value per group.
void group_normalization_by_group(NodeContext& node) {
  const ValueId x = node.x();
  const ValueId grouped = in_groups(node, x, node.attr_int("num_groups"));
  node.output(
      node.reshape(scale_and_shift(node, normalise(node, grouped, 2), grouped), node.shape(x)));
}

/// (x - mean) / (sqrt(variance) + 1e-9) over `axes`; the specification defines this constant.
void mean_variance_normalization(NodeContext& node) {
  const ValueId x = node.widened(node.x());
  const auto axes =
      node.normalise_axes(node.attr_ints("axes").value_or(Ints{0, 2, 3}), node.rank(x));
  const ir::Attrs over{{"axes", axes}, {"keepdims", std::int64_t{1}}};
  const ValueId deviation = node.add("Sub", {x, node.add("ReduceMean", {x}, over)});
  const ValueId variance = node.add("ReduceMean", {node.add("Square", {deviation})}, over);
  const ValueId divisor =
      node.add("Add", {node.add("Sqrt", {variance}), node.constant(node.dtype(x), 1e-9)});
  node.output(node.cast(node.add("Div", {deviation, divisor}), node.dtype(node.x())));
}

/// x / (bias + alpha / size * sum of squares of `size` neighbouring channels)^beta.
void lrn(NodeContext& node) {
  const ValueId x = node.widened(node.x());
  require_channels(node, x);
  const Shape shape = node.shape(x);
  const std::int64_t size = node.attr_int("size");
  if (size < 1 || size > 1 << 20) node.invalid("attribute 'size' is {}; it must be positive", size);
  const DType dtype = node.dtype(x);
  const Shape flat{shape[0], Dim(1), shape[1], ir::element_count({shape.begin() + 2, shape.end()})};
  const Ints ones{1, 1}, none{0, 0};
  // What is loaded is padded, not what is computed: a load knows what is outside.
  const std::vector<Dim> begins{0, 0, (size - 1) / 2, 0}, ends{0, 0, size - 1 - (size - 1) / 2, 0};
  const ValueId padded =
      node.add("Pad", {node.reshape(x, flat)}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
  const ValueId windows = node.add("Unfold", {node.add("Square", {padded})},
                                   {{"kernel", Ints{size, 1}},
                                    {"strides", ones},
                                    {"dilations", ones},
                                    {"pads_begin", none},
                                    {"pads_end", none}});
  const ValueId sum =
      node.add("ReduceSum", {windows}, {{"axes", Ints{2, 3}}, {"keepdims", std::int64_t{0}}});
  const double alpha = node.attr_float("alpha", 1e-4f) / static_cast<double>(size);
  const ValueId scaled = node.add("Mul", {node.reshape(sum, shape), node.constant(dtype, alpha)});
  const ValueId base = node.add("Add", {scaled, node.constant(dtype, node.attr_float("bias", 1))});
  const ValueId beta = node.constant(dtype, node.attr_float("beta", 0.75f));
  const ValueId result = node.add("Div", {x, node.add("Pow", {base, beta})});
  node.output(node.cast(result, node.dtype(node.x())));
}

/// log(softmax(x)) = x - max - log(sum(exp(x - max))) does not underflow. As in softmax,
/// exponentials are at most 1 and need only the type's precision, but their sum may overflow it.
ValueId log_of_softmax(NodeContext& node, ValueId x, std::int64_t axis) {
  const auto reduce = [&](const char* op, ValueId value) {
    return node.add(op, {value}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{1}}});
  };
  const ValueId shifted = node.add("Sub", {x, reduce("ReduceMax", x)});
  const ValueId total = reduce("ReduceSum", node.widened(node.add("Exp", {shifted})));
  const ValueId result = node.add("Sub", {node.widened(shifted), node.add("Log", {total})});
  return node.cast(result, node.dtype(x));
}

ValueId softmax_of(NodeContext& node, ValueId x, std::int64_t axis) {
  if (node.op_type() == "LogSoftmax") return log_of_softmax(node, x, axis);
  return node.add("Softmax", {x}, {{"axis", axis}});
}

void softmax(NodeContext& node) {
  const ValueId x = node.x();
  const std::int64_t axis = node.attr_int("axis", -1);
  if (node.rank(x) == 0)  // softmax of a scalar
    return node.output(node.reshape(softmax_of(node, node.reshape(x, {1}), 0), {}));
  node.output(softmax_of(node, x, node.normalise_axis(axis, node.rank(x))));
}

/// Before opset 13 softmax is over all dimensions from `axis` on, flattened.
void softmax_flattened(NodeContext& node) {
  const ValueId x = node.x();
  const Shape shape = node.shape(x);
  const auto rank = std::ssize(shape);
  std::int64_t axis = node.attr_int("axis", 1);
  if (axis < -rank || axis > rank)
    node.invalid("axis {} is out of range for {}", axis, node.type(x));
  if (axis < 0) axis += rank;
  if (rank > 0 && axis == rank - 1) return node.output(softmax_of(node, x, axis));
  const Shape flat{ir::element_count({shape.begin(), shape.begin() + axis}),
                   ir::element_count({shape.begin() + axis, shape.end()})};
  node.output(node.reshape(softmax_of(node, node.reshape(x, flat), 1), shape));
}

}  // namespace

void output_statistics(NodeContext& node, ValueId x, std::int64_t axis, double epsilon,
                       std::size_t mean_output, std::size_t deviation_output, bool is_centred) {
  if (!node.output_is_used(mean_output) && !node.output_is_used(deviation_output)) return;
  Ints axes;
  for (std::int64_t d = axis; d < node.rank(x); ++d) axes.push_back(d);
  const ir::Attrs over{{"axes", axes}, {"keepdims", std::int64_t{1}}};
  const DType wide = compute_type(node.dtype(x));
  const ValueId values = node.cast(x, wide);
  const ValueId mean = node.add("ReduceMean", {values}, over);
  const ValueId deviation = is_centred ? node.add("Sub", {values, mean}) : values;
  const ValueId variance = node.add("ReduceMean", {node.add("Square", {deviation})}, over);
  node.output(mean_output, mean);
  node.output(deviation_output,
              node.add("Rsqrt", {node.add("Add", {variance, node.constant(wide, epsilon)})}));
}

ValueId normalise_groups(NodeContext& node, ValueId x, std::int64_t groups) {
  return normalise(node, in_groups(node, x, groups), 2);
}

ValueId per_channel(NodeContext& node, std::size_t i, const char* what, ValueId x) {
  const ValueId value = node.cast(node.input(i, what), node.dtype(x));
  const Dim channels = node.shape(x)[1];
  if (node.shape(value) != Shape{channels})
    node.invalid("{} must be [{}], but is {}", what, channels, node.type(value));
  Shape shape(node.shape(x).size() - 1, Dim(1));
  shape[0] = channels;
  return node.reshape(value, shape);
}

const OpRows kNormalizationOps = {
    // ONNX Runtime also writes the first two into models of older opsets.
    {"LayerNormalization", 1, layer_normalization, "axis epsilon stash_type"},
    {"SimplifiedLayerNormalization", 1, rms_normalization, "axis epsilon stash_type"},
    {"SimplifiedLayerNormalization", 1, rms_normalization, "axis epsilon stash_type", kMicrosoft},
    {"RMSNormalization", 23, rms_normalization, "axis epsilon stash_type"},
    {"BatchNormalization", 6, batch_normalization,
     "epsilon is_test:-6 momentum spatial:-8 training_mode:14-"},
    {"InstanceNormalization", 6, instance_normalization, "epsilon"},
    {"GroupNormalization", 18, group_normalization_by_group, "epsilon num_groups"},
    {"GroupNormalization", 21, group_normalization, "epsilon num_groups stash_type"},
    {"MeanVarianceNormalization", 9, mean_variance_normalization, "axes"},
    {"LRN", 1, lrn, "alpha beta bias size"},
    {"Softmax", 1, softmax_flattened, "axis"},
    {"Softmax", 13, softmax, "axis"},
    {"LogSoftmax", 1, softmax_flattened, "axis"},
    {"LogSoftmax", 13, softmax, "axis"},
};

}  // namespace sinter::frontend
