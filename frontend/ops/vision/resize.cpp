// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample: their scales, sizes and rules.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/ops/table/op_table.h"
#include "frontend/ops/vision/resizer.h"

namespace sinter::frontend {
namespace {

using Mode = ResizeMode;
using Axis = ResizeAxis;

/// Rounds `elements` to a valid size.
std::int64_t whole_size(NodeContext& node, double elements) {
  constexpr double kMost = 0x1p48;  // far from overflow and beyond any memory
  if (!(elements >= 0 && elements <= kMost))
    node.unsupported("a dimension of {} elements", elements);
  return static_cast<std::int64_t>(elements);
}

/// floor(dim * scale); for symbolic sizes, the scale is the nearest simple fraction.
Dim scaled_size(NodeContext& node, const Dim& dim, double scale) {
  if (!(scale > 0 && std::isfinite(scale)))
    node.invalid("scale {} is not a positive number", scale);
  if (dim.is_constant())  // in float32, since scales are float32
    return whole_size(node,
                      std::floor(static_cast<float>(dim.value()) * static_cast<float>(scale)));
  constexpr int kLargest = 1024;
  if (scale > kLargest)
    node.unsupported("a scale of {} of the symbolic dimension {}: give the dimension as a number",
                     scale, dim);
  for (int q = 1; q <= kLargest; ++q) {
    const double p = std::round(scale * q);
    if (p > 0 && std::abs(p / q - scale) <= scale * 1e-7)
      return ir::floor_div(dim * Dim(static_cast<std::int64_t>(p)), q, node.builder().ranges());
  }
  node.unsupported(
      "dimension {} times {} is no simple fraction of it: give the dimension as a number", dim,
      scale);
}

std::vector<double> constants(NodeContext& node, std::size_t i, std::string_view what) {
  const ValueId value = node.input(i, what);
  const auto tensor = node.folder().constant(value);
  if (tensor) return tensor->to_doubles();
  node.folder().need(value);
  node.unsupported(
      "its {} (input {}) depend on the data of the model's inputs; they must be constants", what,
      i);
}

std::vector<Axis> all_axes(const Shape& shape) {
  std::vector<Axis> axes;
  for (const Dim& dim : shape) axes.push_back({dim, dim, {}, 0, 1, true});
  return axes;
}

void check_count(NodeContext& node, std::string_view what, std::size_t found, std::size_t wanted) {
  if (found != wanted) node.invalid("{} {} are given for {} dimensions", found, what, wanted);
}

void finish(NodeContext& node, std::vector<Axis> axes, Resizing how) {
  for (Axis& axis : axes)
    axis.changes = !(axis.from == axis.to && axis.scale.value_or(1) == 1 && axis.roi_begin == 0 &&
                     axis.roi_end == 1);
  const Term x(node, node.input(0, "X"));
  node.output(resized(node, x, std::move(how), std::move(axes)).value());
}

void apply_scales(NodeContext& node, std::vector<Axis>& axes, const std::vector<double>& scales,
                  const Ints& which) {
  check_count(node, "scales", scales.size(), which.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    Axis& axis = axes[static_cast<std::size_t>(which[i])];
    axis.scale = scales[i];
    axis.to = scaled_size(node, axis.from, scales[i]);
  }
}

Mode read_mode(NodeContext& node) {
  const std::string mode = node.attr_string("mode", "nearest");
  if (mode == "nearest") return Mode::kNearest;
  if (mode == "linear" || mode == "bilinear" || mode == "trilinear") return Mode::kLinear;
  if (mode == "cubic") return Mode::kCubic;
  node.invalid("attribute 'mode' must be nearest, linear or cubic, but is '" + mode + "'");
}

/// Upsample, and Resize before it had coordinate modes: nearest elements follow ONNX Runtime.
void resize_asymmetric(NodeContext& node) {
  std::vector<Axis> axes = all_axes(node.shape(node.input(0, "X")));
  Ints which(axes.size());
  std::iota(which.begin(), which.end(), 0);
  const bool by_attribute = node.op_type() == "Upsample" && node.opset() < 9;
  auto scales = by_attribute ? node.attr_floats("scales").value_or(std::vector<double>{})
                             : constants(node, 1, "scales");
  apply_scales(node, axes, scales, which);
  Resizing how;
  how.mode = read_mode(node);
  how.coordinates = "asymmetric";
  how.nearest = "simple";
  finish(node, std::move(axes), std::move(how));
}

/// One scale for all of `which`, so that the result fits into, or covers, the requested sizes.
void keep_aspect_ratio(NodeContext& node, std::vector<Axis>& axes, const Ints& which, bool larger) {
  std::optional<double> scale;
  for (const std::int64_t d : which) {
    const Axis& axis = axes[static_cast<std::size_t>(d)];
    if (!axis.from.is_constant() || !axis.to.is_constant())
      node.unsupported("keep_aspect_ratio_policy needs known sizes, but dimension {} is {} -> {}",
                       d, axis.from, axis.to);
    const double own =
        static_cast<double>(axis.to.value()) / static_cast<double>(axis.from.value());
    scale = !scale ? own : larger ? std::max(*scale, own) : std::min(*scale, own);
  }
  for (const std::int64_t d : which) {
    Axis& axis = axes[static_cast<std::size_t>(d)];
    axis.scale = scale;
    axis.to = whole_size(node, std::floor(*scale * static_cast<double>(axis.from.value()) + 0.5));
  }
}

void resize(NodeContext& node) {
  const Shape shape = node.shape(node.input(0, "X"));
  std::vector<Axis> axes = all_axes(shape);
  Ints which(axes.size());
  std::iota(which.begin(), which.end(), 0);
  if (const auto given = node.opset() >= 18 ? node.attr_ints("axes") : std::nullopt) {
    which = *given;
    for (std::int64_t& axis : which) axis = node.normalise_axis(axis, std::ssize(shape));
    node.normalise_axes(which, std::ssize(shape));  // refuses duplicates
  }
  Resizing how;
  how.mode = read_mode(node);
  how.coordinates = node.attr_string("coordinate_transformation_mode", "half_pixel");
  how.nearest = node.attr_string("nearest_mode", "round_prefer_floor");
  how.cubic_a = node.attr_float("cubic_coeff_a", -0.75);
  how.extrapolation = node.attr_float("extrapolation_value", 0);
  how.exclude_outside = node.attr_int("exclude_outside", 0) != 0;
  how.antialias = node.opset() >= 18 && node.attr_int("antialias", 0) != 0;
  const bool is_tf = how.coordinates == "tf_half_pixel_for_nn";
  if (is_tf && node.opset() >= 13)
    node.assume(
        "coordinate_transformation_mode 'tf_half_pixel_for_nn' is of opsets 11 and 12, and is "
        "taken as there");
  constexpr std::string_view kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                               "pytorch_half_pixel", "align_corners",
                                               "asymmetric",         "tf_crop_and_resize"};
  if (std::find(std::begin(kCoordinates), std::end(kCoordinates), how.coordinates) ==
          std::end(kCoordinates) &&
      !is_tf)
    node.unsupported("coordinate_transformation_mode '" + how.coordinates + "'");
  constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                           "ceil"};
  if (std::find(std::begin(kNearest), std::end(kNearest), how.nearest) == std::end(kNearest))
    node.invalid("attribute 'nearest_mode' is '" + how.nearest + "'");
  if (how.antialias && how.mode == Mode::kNearest)
    node.invalid("antialias has no meaning for mode nearest");

  const auto is_given = [&](std::size_t i) {
    return node.has_input(i) && ir::element_count(node.shape(node.input(i, "input"))) != Dim(0);
  };
  if (how.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = constants(node, 1, "roi");
    check_count(node, "values of roi", roi.size(), 2 * which.size());
    for (std::size_t i = 0; i < which.size(); ++i) {
      axes[static_cast<std::size_t>(which[i])].roi_begin = roi[i];
      axes[static_cast<std::size_t>(which[i])].roi_end = roi[which.size() + i];
    }
  }
  if (is_given(3)) {
    const std::vector<Dim> sizes = node.sizes(3, "sizes");
    check_count(node, "sizes", sizes.size(), which.size());
    for (std::size_t i = 0; i < which.size(); ++i)
      axes[static_cast<std::size_t>(which[i])].to = sizes[i];
    const std::string policy =
        node.opset() >= 18 ? node.attr_string("keep_aspect_ratio_policy", "stretch") : "stretch";
    if (policy == "not_larger" || policy == "not_smaller")
      keep_aspect_ratio(node, axes, which, policy == "not_smaller");
    else if (policy != "stretch")
      node.invalid("attribute 'keep_aspect_ratio_policy' is '" + policy + "'");
  } else if (is_given(2)) {
    apply_scales(node, axes, constants(node, 2, "scales"), which);
  } else {
    node.invalid("it has neither scales nor sizes");
  }
  for (const Axis& axis : axes)
    if (axis.to.is_constant() && axis.to.value() < 0) node.invalid("a size is negative");
  finish(node, std::move(axes), std::move(how));
}

}  // namespace

const OpRows kResizeOps = {
    {"Upsample", 7, resize_asymmetric, "mode scales:-8"},
    {"Resize", 10, resize_asymmetric, "mode"},
    {"Resize", 11, resize,
     "antialias:18- axes:18- coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy:18- mode nearest_mode"},
};

}  // namespace sinter::frontend
