// Resize and Upsample: which input elements an output element is made of, along each dimension.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "frontend/ops/interpolate.h"
#include "frontend/ops/op_table.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

enum class Mode { kNearest, kLinear, kCubic };

struct Axis {
  Dim from, to;
  // Scale as ONNX uses it: what was given, or to / from.
  std::optional<double> scale;
  double roi_begin = 0, roi_end = 1;
  bool changes = true;
};

struct Resizing {
  Mode mode = Mode::kNearest;
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// The position in the input that element `x` of the output stands for; formulas of the ONNX
/// specification of Resize. T is double or Term.
template <typename T>
T original(const Resizing& how, const Axis& axis, const T& x, const T& from, const T& to,
           const T& scale) {
  const T width = axis.scale ? scale * from : to;  // before rounding
  const std::string& c = how.coordinates;
  if (c == "align_corners") return x * (from - 1) / (width - 1);
  if (c == "asymmetric") return x / scale;
  if (c == "tf_crop_and_resize")
    return x * (from - 1) * (axis.roi_end - axis.roi_begin) / (width - 1) +
           (from - 1) * axis.roi_begin;
  const T half = (x + 0.5) / scale - 0.5;
  if (c == "half_pixel_symmetric") return half + (from / 2.0) * (1 - to / width);
  return half;
}

/// Where the output is one element wide, some rules have a position of their own.
std::optional<double> single_position(const Resizing& how, const Axis& axis) {
  if (!axis.to.is_constant() || !axis.from.is_constant()) return std::nullopt;
  const auto from = static_cast<double>(axis.from.value());
  const double width = axis.scale ? *axis.scale * from : static_cast<double>(axis.to.value());
  if (width != 1) return std::nullopt;
  if (how.coordinates == "align_corners") return 0;
  if (how.coordinates == "pytorch_half_pixel") return -0.5;
  if (how.coordinates == "tf_crop_and_resize")
    return (axis.roi_end - axis.roi_begin) * (from - 1) / 2 + axis.roi_begin * (from - 1);
  return std::nullopt;
}

/// Element `at` of `from`, or the nearest one that there is; NaN, of scales and regions that make
/// none, is the first.
std::int64_t nearest_element(double at, std::int64_t from) {
  if (!(at > 0)) return 0;
  return at < static_cast<double>(from - 1) ? static_cast<std::int64_t>(at) : from - 1;
}

double round_as(const std::string& mode, double x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  return mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

Term round_as(const std::string& mode, const Term& x) {
  if (mode == "floor") return floor(x);
  if (mode == "ceil") return ceil(x);
  return mode == "round_prefer_ceil" ? floor(x + 0.5) : ceil(x - 0.5);
}

/// Tables of positions are made up to this length; longer ones stay formulas.
constexpr std::int64_t kMaxTable = std::int64_t{1} << 20;

bool has_table(const Axis& axis) {
  return axis.from.is_constant() && axis.to.is_constant() && axis.to.value() <= kMaxTable;
}

/// Positions of all elements of a dimension of known sizes.
std::vector<double> known_positions(const Resizing& how, const Axis& axis) {
  const auto from = static_cast<double>(axis.from.value()),
             to = static_cast<double>(axis.to.value());
  const auto single = single_position(how, axis);
  std::vector<double> result;
  for (std::int64_t i = 0; i < axis.to.value(); ++i)
    result.push_back(single ? *single
                            : original<double>(how, axis, static_cast<double>(i), from, to,
                                               axis.scale.value_or(to / from)));
  return result;
}

class Resizer {
 public:
  Resizer(NodeContext& node, Term x, Resizing how) : node_(node), x_(x), how_(std::move(how)) {}

  Term run(std::vector<Axis> axes) {
    const DType type = x_.dtype();
    if (how_.mode != Mode::kNearest && !is_float(type)) x_ = x_.cast(DType::kFloat32);
    std::optional<Term> outside;
    if (how_.coordinates == "tf_crop_and_resize") outside = extrapolated(axes);
    if (how_.mode == Mode::kNearest) {
      for (std::size_t d = 0; d < axes.size(); ++d)
        if (axes[d].changes && nearest_view(axes, d)) axes[d].changes = false;
    }
    if (how_.antialias) {
      for (std::size_t d = 0; d < axes.size(); ++d)
        if (axes[d].changes) filter(axes[d], d);
    } else {
      // A few dimensions at a time: each multiplies the number of neighbours.
      const std::size_t most = how_.mode == Mode::kLinear ? 3 : how_.mode == Mode::kCubic ? 2 : 64;
      std::vector<std::size_t> left;
      for (std::size_t d = 0; d < axes.size(); ++d)
        if (axes[d].changes) left.push_back(d);
      for (std::size_t i = 0; i < left.size(); i += most)
        sample(axes, {left.begin() + static_cast<std::ptrdiff_t>(i),
                      left.begin() + static_cast<std::ptrdiff_t>(std::min(i + most, left.size()))});
    }
    if (outside) x_ = select(*outside, x_.number(how_.extrapolation), x_);
    if (x_.dtype() == type) return x_;
    x_ = x_.apply("Round");
    if (type == DType::kInt8 || type == DType::kUInt8) {  // casts to wider types saturate
      const bool is_signed = type == DType::kInt8;
      x_ = clamp(x_, is_signed ? -128 : 0, x_.number(is_signed ? 127 : 255));
    }
    return x_.cast(type);
  }

 private:
  /// Positions along dimension `d` of the result, in float64: rounding decides between elements.
  Term positions(const Axis& axis, std::size_t d) {
    const std::size_t rank = x_.shape().size();
    const Term i = iota(node_, axis.to, d, rank, DType::kFloat64);
    if (const auto single = single_position(how_, axis)) return i * 0.0 + *single;
    const Term from = size_of_dim(node_, axis.from, DType::kFloat64);
    const Term to = size_of_dim(node_, axis.to, DType::kFloat64);
    const Term scale = axis.scale ? i.number(*axis.scale) : to / from;
    if (!has_table(axis)) return original<Term>(how_, axis, i, from, to, scale);
    const std::vector<double> known = known_positions(how_, axis);
    std::vector<std::int64_t> shape(rank, 1);
    shape[d] = axis.to.value();
    return {node_,
            node_.builder().constant(ir::Tensor::from_doubles(DType::kFloat64, shape, known))};
  }

  std::optional<Term> extrapolated(const std::vector<Axis>& axes) {
    std::optional<Term> result;
    for (std::size_t d = 0; d < axes.size(); ++d) {
      if (!axes[d].changes) continue;
      const Term p = positions(axes[d], d);
      const Term last = size_of_dim(node_, axes[d].from, DType::kFloat64) - 1;
      const Term outside = p.with("Less", 0).with("Or", p.with("Greater", last));
      result = result ? result->with("Or", outside) : outside;
    }
    return result;
  }

  /// Repeats each element, or takes every so-manieth, as a view; false if that is not it.
  bool nearest_view(const std::vector<Axis>& axes, std::size_t d) {
    const Axis& axis = axes[d];
    if (has_table(axis)) {
      const std::int64_t from = axis.from.value(), to = axis.to.value();
      if (from < 1 || to < 1) return false;
      std::vector<std::int64_t> index;
      for (const double p : known_positions(how_, axis))
        index.push_back(nearest_element(round_as(how_.nearest, p), from));
      const auto follows = [&](auto&& rule) {
        for (std::int64_t i = 0; i < to; ++i)
          if (index[static_cast<std::size_t>(i)] != rule(i)) return false;
        return true;
      };
      if (to % from == 0 && follows([&](std::int64_t i) { return i / (to / from); })) {
        repeat(d, to / from);
        return true;
      }
      const std::int64_t step = to > 1 ? index[1] - index[0] : 1;
      if (step == 0 || !follows([&](std::int64_t i) { return index[0] + i * step; })) return false;
      const Shape shape = x_.shape();
      std::vector<Dim> starts(shape.size(), Dim(0));
      std::vector<std::int64_t> steps(shape.size(), 1);
      Shape sliced = shape;
      starts[d] = index[0];
      steps[d] = step;
      sliced[d] = to;
      x_ = {node_, node_.add("Slice", {x_.value()},
                             {{"starts", starts}, {"steps", steps}, {"shape", sliced}})};
      return true;
    }
    // An integer scale: (q * s + r) maps to q for every r < s under these rules.
    const auto times = ir::divide_exactly(axis.to, axis.from);
    if (!times || !times->is_constant() || times->value() < 1) return false;
    const bool half = how_.coordinates.find("half_pixel") != std::string::npos;
    const bool rounds = how_.nearest.starts_with("round");
    if (!(how_.coordinates == "asymmetric" && how_.nearest == "floor") && !(half && rounds))
      return false;
    repeat(d, times->value());
    return true;
  }

  void repeat(std::size_t d, std::int64_t times) {
    Shape shape = x_.shape();
    const Dim extent = shape[d];
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, Dim(1));
    const Term apart = x_.reshape(shape);
    shape[d + 1] = times;
    const Term repeated(node_, node_.expand(apart.value(), shape));
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    shape[d] = extent * Dim(times);
    x_ = repeated.reshape(shape);
  }

  void sample(const std::vector<Axis>& axes, const std::vector<std::size_t>& chosen) {
    const Shape shape = x_.shape();
    std::vector<std::vector<Tap>> taps;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (std::find(chosen.begin(), chosen.end(), d) == chosen.end())
        taps.push_back({{iota(node_, shape[d], d, shape.size()), {}, {}}});
      else
        taps.push_back(taps_of(axes[d], d));
    }
    x_ = interpolate(x_, taps, x_.dtype());
  }

  std::vector<Tap> taps_of(const Axis& axis, std::size_t d) {
    const Term p = positions(axis, d);
    const Term last = size_of_dim(node_, axis.from, DType::kFloat64) - 1;
    const auto index = [&](const Term& at) { return clamp(at, 0, last).cast(DType::kInt64); };
    if (how_.mode == Mode::kNearest) return {{index(round_as(how_.nearest, p)), {}, {}}};
    const Term left = floor(p), t = p - left;
    std::vector<Term> weights = {1 - t, t};
    int first = 0;
    if (how_.mode == Mode::kCubic) {
      const auto four = cubic_weights(t, how_.cubic_a);
      weights.assign(four.begin(), four.end());
      first = -1;
    }
    if (how_.exclude_outside) {
      std::optional<Term> sum;
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const Term at = left + (first + static_cast<double>(k));
        const Term inside = at.with("GreaterOrEqual", 0).with("And", at.with("LessOrEqual", last));
        weights[k] = select(inside, weights[k], weights[k].number(0));
        sum = sum ? *sum + weights[k] : weights[k];
      }
      for (Term& weight : weights) weight = weight / *sum;
    }
    std::vector<Tap> taps;
    for (std::size_t k = 0; k < weights.size(); ++k)
      taps.push_back({index(left + (first + static_cast<double>(k))), weights[k], {}});
    return taps;
  }

  /// Anti-aliased: the filter is as wide as an output element, so it is a product with a matrix.
  void filter(const Axis& axis, std::size_t d) {
    if (!axis.from.is_constant() || !axis.to.is_constant())
      node_.unsupported(fmt::format(
          "antialias along dimension {}, which is {} -> {}: give those sizes as numbers", d,
          axis.from.to_string(), axis.to.to_string()));
    const std::int64_t from = axis.from.value(), to = axis.to.value();
    // In float64, and then in the result's type.
    const std::int64_t each = 8 + static_cast<std::int64_t>(size_of(x_.dtype()));
    if (to > kMaxTable || from > INT64_MAX / each / std::max<std::int64_t>(to, 1))
      node_.unsupported(
          fmt::format("antialias along dimension {}, which is {} -> {}: its filter is "
                      "a matrix of these sizes",
                      d, from, to));
    node_.take_memory(from * to * each,
                      fmt::format("the antialias filter of dimension {}, a matrix "
                                  "of {} x {}",
                                  d, from, to));
    std::vector<double> matrix(static_cast<std::size_t>(from * to), 0);
    const double scale =
        std::min(axis.scale.value_or(static_cast<double>(to) / static_cast<double>(from)), 1.0);
    const double support = how_.mode == Mode::kCubic ? 2 : 1;
    // A filter that is far wider than the input would weigh its first and last element alone.
    const double widest = 4 * static_cast<double>(from) + 4;
    if (support / scale > widest)
      node_.unsupported(
          fmt::format("antialias of a scale of {} along dimension {} of {}", scale, d, from));
    const auto first = static_cast<std::int64_t>(std::floor(-support / scale)) + 1;
    const std::int64_t count = 2 - 2 * first;
    const std::vector<double> all = known_positions(how_, axis);
    for (std::int64_t o = 0; o < to; ++o) {
      const double p = all[static_cast<std::size_t>(o)];
      // ONNX counts a whole position as the right end of the interval before it.
      const double base = std::ceil(p) - 1;
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const double at = base + static_cast<double>(first + k);
        weights.push_back(kernel(std::abs(at - p) * scale));
        sum += weights.back();
      }
      for (double& weight : weights) weight /= sum;
      double inside = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const double at = base + static_cast<double>(first + k);
        double& weight = weights[static_cast<std::size_t>(k)];
        if (how_.exclude_outside && !(at >= 0 && at < static_cast<double>(from))) weight = 0;
        inside += weight;
      }
      for (std::int64_t k = 0; k < count; ++k) {
        const double weight = weights[static_cast<std::size_t>(k)];
        const std::int64_t i = nearest_element(base + static_cast<double>(first + k), from);
        matrix[static_cast<std::size_t>(i * to + o)] +=
            how_.exclude_outside && inside != 0 ? weight / inside : weight;
      }
    }
    const ValueId weights =
        node_.builder().constant(ir::Tensor::from_doubles(x_.dtype(), {from, to}, matrix));
    const std::size_t rank = x_.shape().size();
    std::vector<std::int64_t> perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[d], perm[rank - 1]);
    ValueId y = rank > 1 ? node_.transpose(x_.value(), perm) : node_.reshape(x_.value(), {1, from});
    y = node_.add("MatMul", {y, weights});
    x_ = {node_, rank > 1 ? node_.transpose(y, perm) : node_.reshape(y, {to})};
  }

  double kernel(double x) const {
    if (how_.mode == Mode::kLinear) return std::max(0.0, 1 - x);
    const double a = how_.cubic_a;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  }

  NodeContext& node_;
  Term x_;
  Resizing how_;
};

/// A size of `elements`, which may be any number.
std::int64_t whole_size(NodeContext& node, double elements) {
  constexpr double kMost = 0x1p48;  // far from overflow, and from what any memory holds
  if (!(elements >= 0 && elements <= kMost))
    node.unsupported(fmt::format("a dimension of {} elements", elements));
  return static_cast<std::int64_t>(elements);
}

/// floor(dim * scale), with the scale as the nearest simple fraction where the size is a symbol.
Dim scaled_size(NodeContext& node, const Dim& dim, double scale) {
  if (!(scale > 0 && std::isfinite(scale)))
    node.invalid(fmt::format("scale {} is not a positive number", scale));
  if (dim.is_constant())  // in float32, as scales are
    return whole_size(node,
                      std::floor(static_cast<float>(dim.value()) * static_cast<float>(scale)));
  constexpr int kLargest = 1024;
  if (scale > kLargest)
    node.unsupported(
        fmt::format("a scale of {} of the symbolic dimension {}: give the dimension as a number",
                    scale, dim.to_string()));
  for (int q = 1; q <= kLargest; ++q) {
    const double p = std::round(scale * q);
    if (p > 0 && std::abs(p / q - scale) <= scale * 1e-7)
      return ir::floor_div(dim * Dim(static_cast<std::int64_t>(p)), q, node.builder().ranges());
  }
  node.unsupported(fmt::format(
      "dimension {} times {} is no simple fraction of it: give the dimension as a number",
      dim.to_string(), scale));
}

std::vector<double> constants(NodeContext& node, std::size_t i, std::string_view what) {
  const ValueId value = node.input(i, what);
  const auto tensor = node.folder().constant(value);
  if (tensor) return tensor->to_doubles();
  node.folder().need(value);
  node.unsupported(fmt::format(
      "its {} (input {}) depend on the data of the model's inputs; they must be constants", what,
      i));
}

std::vector<Axis> all_axes(const Shape& shape) {
  std::vector<Axis> axes;
  for (const Dim& dim : shape) axes.push_back({dim, dim, {}, 0, 1, true});
  return axes;
}

void check_count(NodeContext& node, std::string_view what, std::size_t found, std::size_t wanted) {
  if (found != wanted)
    node.invalid(fmt::format("{} {} are given for {} dimensions", found, what, wanted));
}

void finish(NodeContext& node, std::vector<Axis> axes, Resizing how) {
  for (Axis& axis : axes)
    axis.changes = !(axis.from == axis.to && axis.scale.value_or(1) == 1 && axis.roi_begin == 0 &&
                     axis.roi_end == 1);
  const Term x(node, node.input(0, "X"));
  node.output(Resizer(node, x, std::move(how)).run(std::move(axes)).value());
}

void apply_scales(NodeContext& node, std::vector<Axis>& axes, const std::vector<double>& scales,
                  const std::vector<std::int64_t>& which) {
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

/// Upsample, and Resize before it had a choice of coordinates.
void resize_asymmetric(NodeContext& node) {
  std::vector<Axis> axes = all_axes(node.shape(node.input(0, "X")));
  std::vector<std::int64_t> which(axes.size());
  std::iota(which.begin(), which.end(), 0);
  const bool by_attribute = node.op_type() == "Upsample" && node.opset() < 9;
  auto scales = by_attribute ? node.attr_floats("scales").value_or(std::vector<double>{})
                             : constants(node, 1, "scales");
  apply_scales(node, axes, scales, which);
  Resizing how;
  how.mode = read_mode(node);
  how.coordinates = "asymmetric";
  how.nearest = "floor";
  finish(node, std::move(axes), std::move(how));
}

/// One scale for all of `which`, so that the result fits into, or covers, the sizes wanted.
void keep_aspect_ratio(NodeContext& node, std::vector<Axis>& axes,
                       const std::vector<std::int64_t>& which, bool larger) {
  std::optional<double> scale;
  for (const std::int64_t d : which) {
    const Axis& axis = axes[static_cast<std::size_t>(d)];
    if (!axis.from.is_constant() || !axis.to.is_constant())
      node.unsupported(
          fmt::format("keep_aspect_ratio_policy needs known sizes, but dimension {} is {} -> {}", d,
                      axis.from.to_string(), axis.to.to_string()));
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
  std::vector<std::int64_t> which(axes.size());
  std::iota(which.begin(), which.end(), 0);
  if (const auto given = node.opset() >= 18 ? node.attr_ints("axes") : std::nullopt) {
    which = *given;
    for (std::int64_t& axis : which)
      axis = node.normalise_axis(axis, static_cast<std::int64_t>(shape.size()));
    node.normalise_axes(which, static_cast<std::int64_t>(shape.size()));  // refuses repeated ones
  }
  Resizing how;
  how.mode = read_mode(node);
  how.coordinates = node.attr_string("coordinate_transformation_mode", "half_pixel");
  how.nearest = node.attr_string("nearest_mode", "round_prefer_floor");
  how.cubic_a = node.attr_float("cubic_coeff_a", -0.75);
  how.extrapolation = node.attr_float("extrapolation_value", 0);
  how.exclude_outside = node.attr_int("exclude_outside", 0) != 0;
  how.antialias = node.opset() >= 18 && node.attr_int("antialias", 0) != 0;
  constexpr std::string_view kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                               "pytorch_half_pixel", "align_corners",
                                               "asymmetric",         "tf_crop_and_resize"};
  if (std::find(std::begin(kCoordinates), std::end(kCoordinates), how.coordinates) ==
      std::end(kCoordinates))
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

constexpr OpRow kResizeOps[] = {
    {"Upsample", 7, resize_asymmetric, "mode scales:-8"},
    {"Resize", 10, resize_asymmetric, "mode"},
    {"Resize", 11, resize,
     "antialias:18- axes:18- coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy:18- mode nearest_mode"},
};

}  // namespace

std::span<const OpRow> resize_ops() { return kResizeOps; }

}  // namespace sinter::frontend
