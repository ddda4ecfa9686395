// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/vision/resize_positions.h"

#include <cmath>
#include <limits>

namespace sinter::frontend {
namespace {

using Mode = ResizeMode;
using Axis = ResizeAxis;

/// Kind of value that `single` rounds.
enum class Result {
  kAny,
  kQuotient,         // of two float32: it is never halfway between two float32
  kFlooredQuotient,  // only its floor, or the floor of it minus a half, is read: bits beyond
                     // float32's may stay
};

/// The nearest float32, as a double.
double single(double x, Result = Result::kAny) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return std::abs(x) <= kLargest ? static_cast<double>(static_cast<float>(x)) : x;
}

/// The same by bit arithmetic: no compiler contracts it with the previous operation. Neither a
/// lower precision nor a wider reference evaluation changes the result.
Term single(const Term& x, Result result = Result::kAny) {
  NodeContext& node = x.node();
  const auto as = [&](const Term& value, DType to) {
    return Term(node, node.add("BitCast", {value.value()}, {{"to", to}}));
  };
  constexpr int kDropped = 52 - 23;  // number of dropped mantissa bits
  constexpr double kUnit = std::int64_t{1} << kDropped;
  const Term bits = as(x, DType::kInt64);
  if (result == Result::kFlooredQuotient) return as(bits + kUnit / 2, DType::kFloat64);
  const auto up = [&] {
    if (result == Result::kQuotient) return bits + kUnit / 2;
    const Term odd = bits.with("ShiftRight", kDropped).with("BitwiseAnd", 1);
    return bits + odd + (kUnit / 2 - 1);
  };
  return as(up().with("BitwiseAnd", -kUnit), DType::kFloat64);
}

/// Whether the nearest element is the position's floor.
bool is_floored(const Resizing& how, const Axis& axis) {
  return how.nearest == "floor" || (how.nearest == "simple" && axis.scale.value_or(1) >= 1);
}

double number_like(double, double value) { return value; }
Term number_like(const Term& x, double value) { return x.number(value); }
double choose(bool condition, double yes, double no) { return condition ? yes : no; }
Term choose(const Term& condition, const Term& yes, const Term& no) {
  return select(condition, yes, no);
}
bool is_several(double to) { return to > 1; }
Term is_several(const Term& to) { return to.with("Greater", 1.0); }

/// Operands for a dimension's positions. T is double or Term.
template <typename T>
struct Sizes {
  T x, from, to;  // the output element, and both sizes
  T scale;        // as given, or to / from
  bool may_be_one, must_be_one;
  bool is_long;  // float32 cannot represent the midpoints between all elements

  /// `several`, or `one` if the output is one element wide.
  T of_width(const T& several, const T& one) const {
    return !may_be_one ? several : must_be_one ? one : choose(is_several(to), several, one);
  }
  T zero() const { return number_like(x, 0); }
};

/// The position in the input for element x of the output, by the formulas in ONNX's specification
/// of Resize.
template <typename T>
T between_elements(const Resizing& how, const Axis& axis, const Sizes<T>& s) {
  const T width = axis.scale ? s.scale * s.from : s.to;  // before rounding
  const T last = s.from - 1;
  const std::string& c = how.coordinates;
  if (c == "align_corners") return s.of_width(s.x * last / (width - 1), s.zero());
  if (c == "asymmetric") return s.x / s.scale;
  if (c == "tf_crop_and_resize")
    return s.of_width(
        s.x * last * (axis.roi_end - axis.roi_begin) / (width - 1) + last * axis.roi_begin,
        last * (0.5 * (axis.roi_begin + axis.roi_end)));
  const T up = (s.x + 0.5) / s.scale;
  if (c == "tf_half_pixel_for_nn") return up;
  if (c == "pytorch_half_pixel") return s.of_width(up - 0.5, s.zero());
  if (c == "half_pixel_symmetric") return up - 0.5 + (s.from / 2.0) * (1 - s.to / width);
  return up - 0.5;
}

/// The same for nearest neighbours. Rounding decides between elements, and scales are rounded
/// themselves: 3 / float32(1/3) is below 9, but 9 in float32. So each operation is in float32, in
/// the order of TensorFlow and ONNX Runtime.
template <typename T>
T of_nearest(const Resizing& how, const Axis& axis, const Sizes<T>& s) {
  const auto f32 = [&](const T& value, Result result = Result::kAny) {
    return s.is_long ? value : single(value, result);
  };
  const auto divide = [&](const T& a, const T& b) { return f32(a / b, Result::kQuotient); };
  const auto locate = [&](const T& a, const T& b) {
    return f32(a / b, is_floored(how, axis) ? Result::kFlooredQuotient : Result::kQuotient);
  };
  const T scale =
      axis.scale ? number_like(s.x, single(*axis.scale)) : f32(s.scale, Result::kQuotient);
  const T last = s.from - 1;
  const std::string& c = how.coordinates;
  if (c == "align_corners") return s.of_width(locate(f32(s.x * last), s.to - 1), s.zero());
  if (c == "asymmetric") return locate(s.x, scale);
  if (c == "tf_crop_and_resize") {
    const double part = single(axis.roi_end - axis.roi_begin);
    const double middle = 0.5 * single(axis.roi_begin + axis.roi_end);
    const T along = divide(f32(f32(s.x * part) * last), s.to - 1);
    return s.of_width(f32(f32(last * axis.roi_begin) + along), f32(last * middle));
  }
  if (c == "half_pixel_symmetric") {  // its last sum is in float64
    const T adjusted = f32(1 - divide(s.to, f32(scale * s.from)));
    return f32(f32((s.from / 2.0) * adjusted) + (s.x + 0.5) / scale - 0.5);
  }
  const T up = locate(s.x + 0.5, scale);
  if (c == "tf_half_pixel_for_nn") return up;
  const T half = up - 0.5;  // exact, except before the first element
  return c == "pytorch_half_pixel" ? s.of_width(half, s.zero()) : half;
}

/// Tolerance for positions halfway between two elements, as in ONNX Runtime: float32 rarely
/// represents the midpoint.
constexpr double kMiddle = 1e-6;

double floor_of(double x) { return std::floor(x); }
double ceil_of(double x) { return std::ceil(x); }
Term floor_of(const Term& x) { return floor(x); }
Term ceil_of(const Term& x) { return ceil(x); }

template <typename T>
T round_as(const Resizing& how, const Axis& axis, const T& x) {
  if (is_floored(how, axis)) return floor_of(x);
  if (how.nearest == "ceil" || how.nearest == "simple") return ceil_of(x);
  return how.nearest == "round_prefer_ceil" ? floor_of(x + (0.5 + kMiddle))
                                            : ceil_of(x - (0.5 + kMiddle));
}

}  // namespace

bool has_table(const Axis& axis) {
  return axis.from.is_constant() && axis.to.is_constant() && axis.to.value() <= kMaxPositions;
}

namespace {

template <typename T>
T position(const Resizing& how, const Axis& axis, Sizes<T> sizes, const ir::Ranges& ranges) {
  constexpr std::int64_t kMostInFloat32 = std::int64_t{1} << 22;
  const auto is_long = [&](const Dim& dim) {
    return ir::upper_bound(dim, ranges).value_or(INT64_MAX) > kMostInFloat32;
  };
  sizes.may_be_one = ir::lower_bound(axis.to, ranges).value_or(0) <= 1;
  sizes.must_be_one = axis.to == Dim(1);
  sizes.is_long = is_long(axis.from) || is_long(axis.to);
  return how.mode == Mode::kNearest ? of_nearest(how, axis, sizes)
                                    : between_elements(how, axis, sizes);
}

}  // namespace

std::vector<double> known_positions(const Resizing& how, const Axis& axis) {
  const auto from = static_cast<double>(axis.from.value()),
             to = static_cast<double>(axis.to.value());
  const double scale = axis.scale.value_or(to / from);
  std::vector<double> result;
  for (std::int64_t i = 0; i < axis.to.value(); ++i)
    result.push_back(
        position<double>(how, axis, {static_cast<double>(i), from, to, scale, {}, {}, {}}, {}));
  return result;
}

Term positions(NodeContext& node, const Resizing& how, const Axis& axis, std::size_t d,
               std::size_t rank) {
  if (has_table(axis)) {
    Ints shape(rank, 1);
    shape[d] = axis.to.value();
    return {node, node.builder().constant(ir::Tensor::from_doubles(DType::kFloat64, shape,
                                                                   known_positions(how, axis)))};
  }
  const Term i = iota(node, axis.to, d, rank, DType::kFloat64);
  const Term from = size_of_dim(node, axis.from, DType::kFloat64);
  const Term to = size_of_dim(node, axis.to, DType::kFloat64);
  const Term scale = axis.scale ? i.number(*axis.scale) : to / from;
  const Term result =
      position<Term>(how, axis, {i, from, to, scale, {}, {}, {}}, node.builder().ranges());
  Shape shape(rank, Dim(1));
  shape[d] = axis.to;
  return result.shape() == shape ? result : Term(node, node.expand(result.value(), shape));
}

std::int64_t element_inside(double at, std::int64_t from) {
  if (!(at > 0)) return 0;
  return at < static_cast<double>(from - 1) ? static_cast<std::int64_t>(at) : from - 1;
}

std::int64_t nearest_element(const Resizing& how, const Axis& axis, double position) {
  return element_inside(round_as(how, axis, position), axis.from.value());
}

Term nearest_element(const Resizing& how, const Axis& axis, const Term& position) {
  const Term last = size_of_dim(position.node(), axis.from, DType::kFloat64) - 1;
  // The cast truncates.
  const Term near = is_floored(how, axis) ? position : round_as(how, axis, position);
  return clamp(near, 0, last).cast(DType::kInt64);
}

}  // namespace sinter::frontend
