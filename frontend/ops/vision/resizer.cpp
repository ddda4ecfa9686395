// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/vision/resizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "frontend/ops/vision/interpolate.h"
#include "frontend/ops/vision/resize_positions.h"

namespace sinter::frontend {
namespace {

using Mode = ResizeMode;
using Axis = ResizeAxis;

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
      // A few dimensions at once: each multiplies the number of neighbours.
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
  Term positions(const Axis& axis, std::size_t d) { return positions(axis, d, x_.shape().size()); }
  Term positions(const Axis& axis, std::size_t d, std::size_t rank) {
    return frontend::positions(node_, how_, axis, d, rank);
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

  /// Repeats each element, or takes every n-th, as a view; false if the resize is neither.
  bool nearest_view(const std::vector<Axis>& axes, std::size_t d) {
    const Axis& axis = axes[d];
    if (has_table(axis)) {
      const std::int64_t from = axis.from.value(), to = axis.to.value();
      if (from < 1 || to < 1) return false;
      Ints index;
      for (const double p : known_positions(how_, axis))
        index.push_back(nearest_element(how_, axis, p));
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
      Ints steps(shape.size(), 1);
      Shape sliced = shape;
      starts[d] = index[0];
      steps[d] = step;
      sliced[d] = to;
      x_ = {node_, node_.add("Slice", {x_.value()},
                             {{"starts", starts}, {"steps", steps}, {"shape", sliced}})};
      return true;
    }
    // An integer scale s: (q * s + r) maps to q for every r < s under these rules.
    const auto times = ir::divide_exactly(axis.to, axis.from);
    if (!times || !times->is_constant() || times->value() < 1) return false;
    const bool is_tf = how_.coordinates == "tf_half_pixel_for_nn";
    const bool half = !is_tf && how_.coordinates.find("half_pixel") != std::string::npos;
    const bool rounds = how_.nearest.starts_with("round");
    const bool floors = how_.nearest == "floor" || how_.nearest == "simple";
    if (!((is_tf || how_.coordinates == "asymmetric") && floors) && !(half && rounds)) return false;
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
      if (std::ranges::find(chosen, d) == chosen.end())
        taps.push_back({{iota(node_, shape[d], d, shape.size()), {}, {}}});
      else
        taps.push_back(taps_of(axes[d], d));
    }
    x_ = interpolate(x_, taps, x_.dtype());
  }

  std::vector<Tap> taps_of(const Axis& axis, std::size_t d) {
    const Term p = positions(axis, d);
    if (how_.mode == Mode::kNearest) return {{nearest_element(how_, axis, p), {}, {}}};
    const Term last = size_of_dim(node_, axis.from, DType::kFloat64) - 1;
    const auto index = [&](const Term& at) { return clamp(at, 0, last).cast(DType::kInt64); };
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

  /// Anti-aliased: the filter is as wide as an output element. Of known sizes it is a few elements
  /// of the input for each of the output; otherwise, or if it has most of them, a matrix.
  void filter(const Axis& axis, std::size_t d) {
    if (!axis.from.is_constant() || !axis.to.is_constant())
      return multiply(d, computed_filter(axis, d));
    const Filter filter = known_filter(axis, d);
    if (filter.count * 4 > axis.from.value()) return multiply(d, matrix_of(filter, axis, d));
    add_taps(filter, axis, d);
  }

  /// Weights of `count` elements of the input for each of the output, from element `first` on.
  struct Filter {
    std::int64_t count = 1;
    Ints first;
    std::vector<double> weights;  // [to, count]; 0 outside the input
  };

  Term matrix_of(const Filter& filter, const Axis& axis, std::size_t d) {
    const std::int64_t from = axis.from.value(), to = axis.to.value();
    // In float64, and then in the result's type.
    const std::int64_t each = 8 + static_cast<std::int64_t>(size_of(x_.dtype()));
    if (from > INT64_MAX / each / std::max<std::int64_t>(to, 1))
      node_.unsupported(
          "antialias along dimension {}, which is {} -> {}: its filter is a matrix of these sizes",
          d, from, to);
    node_.take_memory(
        from * to * each,
        fmt::format("the antialias filter of dimension {}, a matrix of {} x {}", d, from, to));
    std::vector<double> matrix(static_cast<std::size_t>(from * to), 0);
    for (std::int64_t o = 0; o < to; ++o)
      for (std::int64_t k = 0; k < filter.count; ++k) {
        const std::int64_t i = filter.first[static_cast<std::size_t>(o)] + k;
        if (i >= 0 && i < from)
          matrix[static_cast<std::size_t>(i * to + o)] =
              filter.weights[static_cast<std::size_t>(o * filter.count + k)];
      }
    return {node_,
            node_.builder().constant(ir::Tensor::from_doubles(x_.dtype(), {from, to}, matrix))};
  }

  /// Sums weighted elements along dimension `d`: of windows if they lie a constant step apart.
  void add_taps(const Filter& filter, const Axis& axis, std::size_t d) {
    const std::int64_t from = axis.from.value(), to = axis.to.value(), count = filter.count;
    const Shape shape = x_.shape();
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(d);
    const Dim before = ir::element_count(Shape(shape.begin(), at)),
              behind = ir::element_count(Shape(at + 1, shape.end()));
    const std::int64_t step = to > 1 ? filter.first[1] - filter.first[0] : 1;
    const std::int64_t begin = -filter.first[0], end = filter.first.back() + count - from;
    bool is_regular = step > 0 && begin >= 0 && end >= 0;
    for (std::size_t o = 1; o < filter.first.size(); ++o)
      is_regular = is_regular && filter.first[o] - filter.first[o - 1] == step;
    std::vector<double> weights(filter.weights.size());
    Ints index(filter.weights.size());
    for (std::int64_t o = 0; o < to; ++o)
      for (std::int64_t k = 0; k < count; ++k) {
        weights[static_cast<std::size_t>(k * to + o)] =
            filter.weights[static_cast<std::size_t>(o * count + k)];
        index[static_cast<std::size_t>(k * to + o)] =
            std::clamp<std::int64_t>(filter.first[static_cast<std::size_t>(o)] + k, 0, from - 1);
      }
    const Term factors(node_, node_.builder().constant(ir::Tensor::from_doubles(
                                  x_.dtype(), {count, 1, to, 1}, weights)));
    Term taps = x_;
    if (is_regular) {
      const Term image = x_.reshape({before, Dim(1), Dim(from), behind});
      taps = {node_, node_.add("Unfold", {image.value()},
                               {{"kernel", Ints{count, 1}},
                                {"strides", Ints{step, 1}},
                                {"dilations", Ints{1, 1}},
                                {"pads_begin", Ints{begin, 0}},
                                {"pads_end", Ints{end, 0}}})};
    } else {
      const ValueId places =
          node_.builder().constant(ir::Tensor::from_ints(DType::kInt64, {count, 1, to}, index));
      const Term image = x_.reshape({before, Dim(1), Dim(from), behind});
      taps = {node_, node_.add("Gather", {image.value(), places}, {{"axis", std::int64_t{2}}})};
    }
    const ValueId sum = node_.add("ReduceSum", {(taps * factors).value()},
                                  {{"axes", Ints{2, 3}}, {"keepdims", std::int64_t{0}}});
    Shape result = shape;
    result[d] = axis.to;
    x_ = Term(node_, sum).reshape(result);
  }

  /// Multiplies x by `weights` [from, to] along dimension `d`.
  void multiply(std::size_t d, const Term& weights) {
    const std::size_t rank = x_.shape().size();
    Ints perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[d], perm[rank - 1]);
    const Shape sizes = weights.shape();
    ValueId y = rank > 1 ? node_.transpose(x_.value(), perm)
                         : node_.reshape(x_.value(), {Dim(1), sizes[0]});
    y = node_.add("MatMul", {y, weights.value()});
    x_ = {node_, rank > 1 ? node_.transpose(y, perm) : node_.reshape(y, {sizes[1]})};
  }

  /// Number of border elements that a filter reaches beyond either side of the input.
  Dim reach(const Axis& axis) {
    const ir::Ranges& ranges = node_.builder().ranges();
    const std::int64_t support = how_.mode == Mode::kCubic ? 2 : 1;
    if (axis.scale) {
      const double scale = std::min(*axis.scale, 1.0);
      constexpr double kMost = 4096;
      if (!(static_cast<double>(support) / scale <= kMost))
        node_.unsupported("antialias of a scale of {} along a symbolic dimension", scale);
      return Dim(static_cast<std::int64_t>(std::ceil(static_cast<double>(support) / scale)) + 1);
    }
    if (axis.to == Dim(0)) return Dim(support + 1);  // no output element to filter
    const Dim wide = ir::ceil_div(Dim(support) * axis.from, axis.to, ranges);
    return ir::max(wide, Dim(support), ranges) + Dim(1);
  }

  /// The filter as a formula, for symbolic sizes. It applies to the input with its border repeated
  /// on both sides, which `x_` becomes, so that no weight is lost there.
  Term computed_filter(const Axis& axis, std::size_t d) {
    const Dim margin = reach(axis), all = axis.from + Dim(2) * margin;
    const auto number = [&](const Dim& dim) { return size_of_dim(node_, dim, DType::kFloat64); };
    const Term from = number(axis.from), last = from - 1;
    const Term at = iota(node_, all, 0, 2, DType::kFloat64) - number(margin);
    const Term scale =
        (axis.scale ? at.number(*axis.scale) : number(axis.to) / from).with("Min", 1);
    Term weights = kernel(abs(at - positions(axis, 1, 2)) * scale);
    const auto normalised = [](const Term& w) {
      const Term sum = reduce("ReduceSum", w, 0, true);
      return select(sum.with("Equal", 0.0), w, w / sum);
    };
    weights = normalised(weights);
    if (how_.exclude_outside) {
      const Term inside = at.with("GreaterOrEqual", 0.0).with("And", at.with("LessOrEqual", last));
      weights = normalised(select(inside, weights, weights.number(0)));
    }
    const Term place = iota(node_, all, 0, 1, DType::kFloat64) - number(margin);
    const Term index = clamp(place, 0, last.reshape({})).cast(DType::kInt64);
    x_ = {node_, node_.add("Gather", {x_.value(), index.value()},
                           {{"axis", static_cast<std::int64_t>(d)}})};
    return weights.cast(x_.dtype());
  }

  Filter known_filter(const Axis& axis, std::size_t d) {
    const std::int64_t from = axis.from.value(), to = axis.to.value();
    if (to > kMaxPositions)
      node_.unsupported("antialias along dimension {}, which is {} -> {}", d, from, to);
    const double scale =
        std::min(axis.scale.value_or(static_cast<double>(to) / static_cast<double>(from)), 1.0);
    const double support = how_.mode == Mode::kCubic ? 2 : 1;
    // A filter far wider than the input would weigh only its first and last element.
    const double widest = 4 * static_cast<double>(from) + 4;
    if (support / scale > widest)
      node_.unsupported("antialias of a scale of {} along dimension {} of {}", scale, d, from);
    const auto first = static_cast<std::int64_t>(std::floor(-support / scale)) + 1;
    const std::int64_t count = 2 - 2 * first;
    node_.take_memory(count * to * 32, fmt::format("the antialias filter of dimension {}", d));
    const std::vector<double> all = known_positions(how_, axis);
    Filter filter{.count = count, .first = {}, .weights = {}};
    std::vector<bool> is_used(static_cast<std::size_t>(count), false);
    for (std::int64_t o = 0; o < to; ++o) {
      const double p = all[static_cast<std::size_t>(o)];
      // ONNX counts an integer position as the right end of the previous interval.
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
      // A weight outside belongs to the border's element, which has a weight of its own.
      const std::int64_t start =
          overlapping(base + static_cast<double>(first), static_cast<double>(count), from);
      filter.first.push_back(start);
      std::vector<double> sums(static_cast<std::size_t>(count), 0);
      for (std::int64_t k = 0; k < count; ++k) {
        const double weight = weights[static_cast<std::size_t>(k)];
        const std::int64_t i = element_inside(base + static_cast<double>(first + k), from);
        const auto at = static_cast<std::size_t>(i - start);
        sums[at] += how_.exclude_outside && inside != 0 ? weight / inside : weight;
        is_used[at] = is_used[at] || sums[at] != 0;
      }
      filter.weights.insert(filter.weights.end(), sums.begin(), sums.end());
    }
    return without_unused(filter, is_used);
  }

  /// `first`, or the next place from which `count` elements have one of the input's.
  static std::int64_t overlapping(double first, double count, std::int64_t from) {
    if (!(first > 1 - count)) return static_cast<std::int64_t>(1 - count);
    return first < static_cast<double>(from - 1) ? static_cast<std::int64_t>(first) : from - 1;
  }

  /// Without the taps at either end that no element has.
  static Filter without_unused(const Filter& filter, const std::vector<bool>& is_used) {
    const auto used = std::ranges::find(is_used, true);
    if (used == is_used.end()) return filter;
    const std::int64_t begin = used - is_used.begin();
    const std::int64_t end = is_used.rend() - std::find(is_used.rbegin(), is_used.rend(), true);
    Filter result{.count = end - begin, .first = {}, .weights = {}};
    for (std::size_t o = 0; o < filter.first.size(); ++o) {
      result.first.push_back(filter.first[o] + begin);
      const auto row = filter.weights.begin() + static_cast<std::ptrdiff_t>(o) * filter.count;
      result.weights.insert(result.weights.end(), row + begin, row + end);
    }
    return result;
  }

  Term kernel(const Term& x) const {
    if (how_.mode == Mode::kLinear) return (1 - x).with("Max", 0.0);
    const double a = how_.cubic_a;
    const Term near = ((x * (a + 2)) - (a + 3)) * x * x + 1;
    const Term far = ((x * a - 5 * a) * x + 8 * a) * x - 4 * a;
    const Term outer = select(x.with("Less", 2.0), far, x.number(0));
    return select(x.with("LessOrEqual", 1.0), near, outer);
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

}  // namespace

Term resized(NodeContext& node, Term x, Resizing how, std::vector<ResizeAxis> axes) {
  return Resizer(node, x, std::move(how)).run(std::move(axes));
}

}  // namespace sinter::frontend
