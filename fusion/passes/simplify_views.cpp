// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "fusion/passes/simplify_rules.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

using Result = std::optional<ValueId>;
/// Views without effect.
Result nothing_to_do(const Site& site) {
  if (site.node.op->kind != OpKind::kView) return std::nullopt;
  const bool same_shape = site.inputs.size() == 1 && site.input_type(0).shape == site.type.shape;
  if (!same_shape) return std::nullopt;
  const auto zero = [](const Dim& dim) { return dim == Dim(0); };
  const auto all_zero = [&](const char* attr) {
    const auto& dims = site.node.attrs.get_dims(attr);
    return std::ranges::all_of(dims, zero);
  };
  if (site.is("Reshape") || site.is("Expand") || site.is("Concat")) return site.inputs[0];
  if (site.is("Transpose")) {
    const Ints& perm = site.node.attrs.get_ints("perm");
    if (std::ranges::is_sorted(perm)) return site.inputs[0];
  }
  if (site.is("Slice")) {
    const Ints& steps = site.node.attrs.get_ints("steps");
    if (all_zero("starts") && std::ranges::all_of(steps, [](auto s) { return s == 1; }))
      return site.inputs[0];
  }
  if (site.is("Pad") && all_zero("begins") && all_zero("ends")) return site.inputs[0];
  return std::nullopt;
}

Result reshape_of_reshape(const Site& site) {
  if (!site.is("Reshape")) return std::nullopt;
  const Node* inner = site.input_node(0, "Reshape");
  if (inner == nullptr) return std::nullopt;
  return site.builder.add("Reshape", {inner->inputs[0]}, site.node.attrs);
}

Result expand_of_expand(const Site& site) {
  if (!site.is("Expand")) return std::nullopt;
  const Node* inner = site.input_node(0, "Expand");
  if (inner == nullptr) return std::nullopt;
  return site.builder.add("Expand", {inner->inputs[0]}, site.node.attrs);
}

Result transpose_of_transpose(const Site& site) {
  if (!site.is("Transpose")) return std::nullopt;
  const Node* inner = site.input_node(0, "Transpose");
  if (inner == nullptr) return std::nullopt;
  const Ints& first = inner->attrs.get_ints("perm");
  Ints perm;
  for (std::int64_t d : site.node.attrs.get_ints("perm"))
    perm.push_back(first[static_cast<std::size_t>(d)]);
  return site.builder.add("Transpose", {inner->inputs[0]}, {{"perm", std::move(perm)}});
}

/// A scatter between a transpose and its inverse can scatter directly: it has an index tensor for
/// each dimension.
Result scatter_between_transposes(const Site& site) {
  if (!site.is("Transpose")) return std::nullopt;
  const Node* scatter = site.input_node(0, "Scatter");
  if (scatter == nullptr) return std::nullopt;
  const Node* before = site.builder.producer(scatter->inputs[0]);
  if (before == nullptr || before->op->name != "Transpose") return std::nullopt;
  const Ints &first = before->attrs.get_ints("perm"), &second = site.node.attrs.get_ints("perm");
  std::vector<ValueId> inputs{before->inputs[0], scatter->inputs[1]};
  for (std::size_t d = 0; d < second.size(); ++d) {
    const auto from = static_cast<std::size_t>(second[d]);
    if (first[from] != static_cast<std::int64_t>(d)) return std::nullopt;
    inputs.push_back(scatter->inputs[2 + from]);
  }
  return site.builder.add("Scatter", std::move(inputs), scatter->attrs);
}

/// A transpose that moves only dimensions of size 1 is a reshape.
Result transpose_is_reshape(const Site& site) {
  if (!site.is("Transpose")) return std::nullopt;
  const Shape& from = site.input_type(0).shape;
  Ints moved;
  for (std::int64_t d : site.node.attrs.get_ints("perm"))
    if (!(from[static_cast<std::size_t>(d)] == Dim(1))) moved.push_back(d);
  if (!std::ranges::is_sorted(moved)) return std::nullopt;
  return site.builder.add("Reshape", {site.inputs[0]}, {{"shape", site.type.shape}});
}

/// An expansion by dimensions of size 1 is a reshape.
Result expand_is_reshape(const Site& site) {
  if (!site.is("Expand") ||
      ir::element_count(site.input_type(0).shape) != ir::element_count(site.type.shape))
    return std::nullopt;
  return site.builder.add("Reshape", {site.inputs[0]}, {{"shape", site.type.shape}});
}

/// Adjacent windows of one element are the tensor itself.
Result unfold_is_reshape(const Site& site) {
  if (!site.is("Unfold")) return std::nullopt;
  const auto all = [&](const char* attr, std::int64_t expected) {
    const Ints& values = site.node.attrs.get_ints(attr);
    return std::ranges::all_of(values, [&](auto v) { return v == expected; });
  };
  if (!all("kernel", 1) || !all("strides", 1) || !all("pads_begin", 0) || !all("pads_end", 0))
    return std::nullopt;
  return site.builder.add("Reshape", {site.inputs[0]}, {{"shape", site.type.shape}});
}

/// A slice of a slice with forward steps: starts add up, steps multiply.
Result slice_of_slice(const Site& site) {
  if (!site.is("Slice")) return std::nullopt;
  const Node* inner = site.input_node(0, "Slice");
  if (inner == nullptr) return std::nullopt;
  auto starts = inner->attrs.get_dims("starts");
  Ints steps = inner->attrs.get_ints("steps");
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const Dim start = site.node.attrs.get_dims("starts")[d];
    starts[d] += start * Dim(steps[d]);
    steps[d] *= site.node.attrs.get_ints("steps")[d];
  }
  return site.builder.add(
      "Slice", {inner->inputs[0]},
      {{"starts", std::move(starts)}, {"steps", std::move(steps)}, {"shape", site.type.shape}});
}

/// Exporters of causal convolutions pad both ends, and leave the last outputs out: of a convolution
/// of each channel by itself, less is padded behind.
Result end_of_conv(const Site& site) {
  if (!site.is("Slice")) return std::nullopt;
  const Node* const conv = site.input_node(0, "Conv");
  if (conv == nullptr || conv->attrs.get_int("channels_last") != 0) return std::nullopt;
  const Shape &all = site.input_type(0).shape, &kept = site.type.shape;
  if (site.builder.type(conv->inputs[1]).shape[1] != Dim(1) ||
      all[1] != Dim(conv->attrs.get_int("group")))
    return std::nullopt;
  Ints ends = conv->attrs.get_ints("pads_end");
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (site.node.attrs.get_dims("starts")[d] != Dim(0) ||
        site.node.attrs.get_ints("steps")[d] != 1)
      return std::nullopt;
    const Dim less = all[d] - kept[d];
    if (less == Dim(0)) continue;
    if (d < 2 || !less.is_constant() || less.value() < 0 || less.value() > ends[d - 2] ||
        conv->attrs.get_ints("strides")[d - 2] != 1)
      return std::nullopt;
    ends[d - 2] -= less.value();
  }
  Attrs attrs = conv->attrs;
  attrs.set("pads_end", std::move(ends));
  return site.builder.add("Conv", conv->inputs, attrs);
}

/// The sum, mean, maximum, minimum or product of one element is that element.
Result reduce_of_one(const Site& site) {
  if (site.node.op->kind != OpKind::kReduce || site.is("ReduceSumSquare")) return std::nullopt;
  const Shape& from = site.input_type(0).shape;
  for (std::int64_t axis : site.node.attrs.get_ints("axes"))
    if (!(from[static_cast<std::size_t>(axis)] == Dim(1))) return std::nullopt;
  return from == site.type.shape
             ? site.inputs[0]
             : site.builder.add("Reshape", {site.inputs[0]}, {{"shape", site.type.shape}});
}

/// Index tensor of a Take along one dimension: start + step * x[axis] at index x of the result;
/// axis < 0: constant `start`.
struct Walk {
  std::int64_t start = 0, step = 1;
  int axis = -1;
};

/// A constant index in this form, for a result of rank `rank`; nothing if it has another form.
std::optional<Walk> walk_of(const Tensor& index, std::size_t rank) {
  const Ints& shape = index.shape();
  const std::int64_t count = index.element_count();
  if (count == 0) return std::nullopt;
  const auto at = [&](std::int64_t i) { return index.at_int(i); };
  // Excludes indices far out of range, whose differences could overflow.
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  for (std::int64_t i = 0; i < count; ++i)
    if (at(i) < -kFar || at(i) > kFar) return std::nullopt;
  Walk walk{at(0)};
  std::int64_t stride = 1, extent = 1;  // of the axis
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t below = stride;
    stride *= shape[d];
    if (shape[d] == 1 || at(below) == walk.start) continue;
    if (walk.axis >= 0) return std::nullopt;
    walk = {walk.start, at(below) - walk.start, static_cast<int>(d + rank - shape.size())};
    extent = shape[d];
  }
  if (walk.axis >= 0) {
    if (std::abs(walk.step) > 2 * kFar / extent) return std::nullopt;
    stride = 1;
    for (std::size_t d = static_cast<std::size_t>(walk.axis) + shape.size() - rank + 1;
         d < shape.size(); ++d)
      stride *= shape[d];
  }
  for (std::int64_t i = 0; i < count; ++i)
    if (at(i) != walk.start + (walk.axis < 0 ? 0 : walk.step * (i / stride % extent)))
      return std::nullopt;
  return walk;
}

/// Elements selected by constants that each count along one dimension are a slice, as in masks of a
/// batch and its positions.
Result take_is_slice(const Site& site) {
  if (!site.is("Take")) return std::nullopt;
  const Shape& from = site.input_type(0).shape;
  const Shape& to = site.type.shape;
  std::vector<Dim> starts, extents;
  Ints steps;
  Shape aligned(to.size(), Dim(1));
  int last_axis = -1;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const Tensor* index = site.builder.constant_of(site.inputs[d + 1]);
    if (index == nullptr || !from[d].is_constant()) return std::nullopt;
    const auto walk = walk_of(*index, to.size());
    if (!walk || walk->step < 1) return std::nullopt;
    Dim extent = 1;
    if (walk->axis >= 0) {
      if (walk->axis <= last_axis) return std::nullopt;
      last_axis = walk->axis;
      extent = to[static_cast<std::size_t>(walk->axis)];
      aligned[static_cast<std::size_t>(walk->axis)] = extent;
    }
    const std::int64_t last = walk->start + walk->step * (extent.value() - 1);
    if (walk->start < 0 || last >= from[d].value()) return std::nullopt;
    starts.push_back(Dim(walk->start));
    steps.push_back(walk->step);
    extents.push_back(extent);
  }
  const ValueId part = site.builder.add("Slice", {site.inputs[0]},
                                        {{"starts", starts}, {"steps", steps}, {"shape", extents}});
  return site.fitted(site.builder.add("Reshape", {part}, {{"shape", aligned}}));
}

/// A column times a row is one multiplication for each element: exporters spell positions times
/// frequencies this way.
std::optional<ValueId> product_of_depth_one(const Site& site) {
  if (!ir::is_plain_matmul(site.node)) return std::nullopt;
  const TensorType &left = site.input_type(0), &right = site.input_type(1);
  if (left.shape.size() < 2 || right.shape.size() < 2 || left.shape.back() != Dim(1) ||
      left.dtype != site.type.dtype || right.dtype != site.type.dtype)
    return std::nullopt;
  return site.fitted(site.builder.add("Mul", {site.inputs[0], site.inputs[1]}));
}

/// A running value over one element is that element, or what it begins with.
Result scan_of_one(const Site& site) {
  if (!site.is("Scan")) return std::nullopt;
  const auto axis = static_cast<std::size_t>(site.node.attrs.get_int("axis"));
  if (site.type.shape[axis] != Dim(1)) return std::nullopt;
  if (site.node.attrs.get_int("exclusive") == 0) return site.inputs[0];
  const double first = site.node.attrs.get_string("combine") == "sum" ? 0 : 1;  // or "prod"
  return site.fitted(site.builder.scalar(site.type.dtype, first));
}

constexpr std::array<SimplifyRule, 14> kViewRules = {{
    {"nothing_to_do", nothing_to_do},
    {"product_of_depth_one", product_of_depth_one},
    {"reshape_of_reshape", reshape_of_reshape},
    {"expand_of_expand", expand_of_expand},
    {"transpose_of_transpose", transpose_of_transpose},
    {"scatter_between_transposes", scatter_between_transposes},
    {"transpose_is_reshape", transpose_is_reshape},
    {"expand_is_reshape", expand_is_reshape},
    {"unfold_is_reshape", unfold_is_reshape},
    {"slice_of_slice", slice_of_slice},
    {"end_of_conv", end_of_conv},
    {"reduce_of_one", reduce_of_one},
    {"scan_of_one", scan_of_one},
    {"take_is_slice", take_is_slice},
}};

}  // namespace

std::span<const SimplifyRule> view_rules() { return kViewRules; }

}  // namespace sinter::fusion
