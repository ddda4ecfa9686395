// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/activation_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "fusion/calibration/held_out.h"
#include "fusion/calibration/sample_sizes.h"
#include "fusion/scales/rounding/group_fit.h"

namespace sinter::fusion {
namespace {

// The first with the least error wins. The last ones are only for smoothed activations.
constexpr std::array kParts = {1.0F, 0.9F, 0.8F, 0.7F, 0.6F, 0.5F, 1.1F, 1.25F, 1.4F};
constexpr std::size_t kWiderParts = 2;
// An unsigned range must be smaller than this part of the signed one to be worth a zero point.
constexpr float kWorthZeroPoint = 0.75F;
// Below, a row counts as zero.
constexpr double kLeastRowSquare = 0x1p-60;
// Replaces ranges that are zero.
constexpr float kLeastRange = 0x1p-100F;

struct Ends {
  float low, high;
  float largest() const { return std::max(-low, high); }
};

/// Over all columns, divided by their smoothing.
Ends ends_of(const ColumnRanges& ranges, std::span<const float> smoothing) {
  Ends ends{0, 0};
  for (std::size_t j = 0; j < ranges.low.size(); ++j) {
    const float factor = smoothing.empty() ? 1 : smoothing[j];
    ends.low = std::min(ends.low, ranges.low[j] / factor);
    ends.high = std::max(ends.high, ranges.high[j] / factor);
  }
  return ends;
}

float scale_of(const Ends& ends, DType type) {
  const float size = type == DType::kUInt8 ? ends.high - ends.low : ends.largest();
  return size / static_cast<float>(ir::codes_stored_as(type).largest);
}

std::span<const float> parts_of(const RangeChoice& choice) {
  return range_parts(!choice.whole.smoothing.empty());
}

/// The range of integers of `type`.
Ends numbers_of(DType type) { return type == DType::kUInt8 ? Ends{0, 255} : Ends{-128, 127}; }

/// Squared errors of pieces of activations; inputs of the compiled graph select range and
/// smoothing.
class PieceJudge {
 public:
  PieceJudge(const Graph& graph, const Calibration& calibration,
             std::span<const ActivationSample> samples, std::span<const RangeChoice> choices)
      : calibration_(calibration),
        samples_(samples),
        choices_(choices),
        sizes_(sample_sizes(graph, calibration)),
        pieces_(pieces_of_each(calibration)) {}

  std::vector<ValueId> add(GraphBuilder& builder, std::size_t i, ValueId value) const {
    const std::size_t axis = choices_[i].whole.axis;
    std::vector<ValueId> errors;
    const auto pieces = add_pieces(builder, value, axis, sizes_, calibration_);
    for (std::size_t p = 0; p < pieces.size(); ++p)
      add_errors(builder, {i, p, pieces_ == 1 ? axis : 1}, pieces[p], errors);
    return errors;
  }

  std::vector<Tensor> inputs(std::size_t sample) const {
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < choices_.size(); ++i)
      for (std::size_t p = 0; p < pieces_; ++p) {
        const ActivationScale scale = judging_scale(
            samples_[i], choices_[i].whole, choices_[i].smoothing,
            [&](std::size_t piece) { return piece == piece_of(calibration_, sample, p); });
        result.push_back(
            Tensor::scalar(DType::kFloat32, double{std::max(scale.scale, kLeastRange)}));
        if (const auto& factors = scale.smoothing; !factors.empty())
          result.push_back(Tensor::of(DType::kFloat32, {std::ssize(factors)}, factors));
      }
    return result;
  }

 private:
  struct Position {
    std::size_t value, piece, axis;
  };

  void add_errors(GraphBuilder& builder, const Position& position, ValueId value,
                  std::vector<ValueId>& errors) const {
    const RangeChoice& choice = choices_[position.value];
    const auto name = [&](const char* what) {
      return fmt::format("{}{}_{}", what, position.value, position.piece);
    };
    const ValueId scale = builder.input(name("scale"), {DType::kFloat32, {}});
    if (builder.type(value).dtype != DType::kFloat32)
      value = builder.add("Cast", {value}, {{"to", DType::kFloat32}});
    // A column's error is weighted by its factor, by which the weights multiply it again.
    ValueId weight = column_weights(builder, choice, position, value), smoothed = value,
            counted = weight;
    if (!choice.whole.smoothing.empty()) {
      const Dim columns = std::ssize(choice.whole.smoothing);
      const ValueId factors =
          builder.add("Reshape", {builder.input(name("factors"), {DType::kFloat32, {columns}})},
                      {{"shape", along(columns, builder.type(value).shape.size(), position.axis)}});
      smoothed = builder.add("Div", {value, factors});
      counted = builder.add("Mul", {weight, factors});
    }
    for (const float part : parts_of(choice)) {
      const ValueId step = builder.add("Mul", {scale, builder.scalar(DType::kFloat32, part)});
      const ValueId error =
          builder.add("Mul", {counted, rounding_error(builder, choice.whole, smoothed, step)});
      errors.push_back(choice.by_row
                           ? add_sum_of_ratios(builder, error, builder.add("Mul", {weight, value}))
                           : add_sum_of_squares(builder, error));
    }
  }

  static Shape along(const Dim& columns, std::size_t rank, std::size_t axis) {
    Shape shape(rank - axis, Dim(1));
    shape[0] = columns;
    return shape;
  }

  static ValueId column_weights(GraphBuilder& builder, const RangeChoice& choice,
                                const Position& position, ValueId value) {
    if (choice.importance.empty()) return builder.scalar(DType::kFloat32, 1);
    Ints shape(builder.type(value).shape.size() - position.axis, 1);
    shape[0] = std::ssize(choice.importance);
    return builder.constant(Tensor::of(DType::kFloat32, shape, choice.importance));
  }

  static ValueId rounding_error(GraphBuilder& builder, const ActivationScale& whole, ValueId value,
                                ValueId step) {
    const auto number = [&](double x) { return builder.scalar(DType::kFloat32, x); };
    const Ends numbers = numbers_of(whole.type());
    const auto zero = static_cast<double>(whole.zero);
    const ValueId rounded = builder.add("Round", {builder.add("Div", {value, step})});
    const ValueId saturated = builder.add(
        "Clip", {rounded, number(double{numbers.low} - zero), number(double{numbers.high} - zero)});
    return builder.add("Sub", {builder.add("Mul", {saturated, step}), value});
  }

  /// The sum over rows of |a|^2 / |b|^2.
  static ValueId add_sum_of_ratios(GraphBuilder& builder, ValueId a, ValueId b) {
    const std::int64_t last = std::ssize(builder.type(a).shape) - 1;
    const auto square = [&](ValueId value) {
      return builder.add("ReduceSumSquare", {value},
                         {{"axes", Ints{last}}, {"keepdims", std::int64_t{0}}});
    };
    const ValueId size =
        builder.add("Max", {square(b), builder.scalar(DType::kFloat32, kLeastRowSquare)});
    const ValueId ratio = builder.add("Div", {square(a), size});
    Ints axes(static_cast<std::size_t>(last));
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
    return builder.add("ReduceSum", {ratio}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
  }

  const Calibration& calibration_;
  std::span<const ActivationSample> samples_;
  std::span<const RangeChoice> choices_;
  ir::Bindings sizes_;
  std::size_t pieces_;
};

}  // namespace

ActivationScale whole_scale(const ColumnRanges& ranges, std::size_t axis,
                            std::vector<float> smoothing, DType type, ZeroPoints zeros) {
  const Ends ends = ends_of(ranges, smoothing);
  ActivationScale whole;
  whole.format = activation_format(type, ActivationScales::kStatic);
  whole.smoothing = std::move(smoothing);
  whole.axis = axis;
  if (ends.largest() == 0) return whole;
  const bool is_unsigned =
      is_integer(type) &&
      ((ends.low == 0 && zeros != ZeroPoints::kNone) ||
       (zeros == ZeroPoints::kAny && ends.high - ends.low < kWorthZeroPoint * 2 * ends.largest()));
  if (is_unsigned) {
    whole.format.codes = &ir::codes_stored_as(DType::kUInt8);
    const float most = numbers_of(whole.type()).high;
    whole.zero = static_cast<std::int64_t>(rounded(-ends.low / (ends.high - ends.low) * most));
  }
  whole.scale = scale_of(ends, whole.type());
  return whole;
}

ActivationScale judging_scale(const ActivationSample& sample, const ActivationScale& whole,
                              const SmoothingOf& smoothing,
                              const std::function<bool(std::size_t piece)>& is_left_out) {
  const ColumnRanges others = ranges_of(sample, is_left_out);
  ActivationScale result = whole;
  if (smoothing) result.smoothing = smoothing(others);
  const auto scale = [&](const ColumnRanges& ranges) {
    return scale_of(ends_of(ranges, result.smoothing), whole.type());
  };
  result.scale = scale(others);
  const ColumnRanges own = ranges_of(sample, std::not_fn(is_left_out));
  return scale(own) > std::ranges::max(kParts) * result.scale ? whole : result;
}

float rounded_by(const ActivationScale& scale, float x) {
  const Ends numbers = numbers_of(scale.type());
  const auto zero = static_cast<float>(scale.zero);
  return (std::clamp(rounded(x / scale.scale) + zero, numbers.low, numbers.high) - zero) *
         scale.scale;
}

std::span<const float> range_parts(bool is_smoothed) {
  return std::span(kParts).first(kParts.size() - (is_smoothed ? 0 : kWiderParts));
}

std::vector<float> best_parts(const Graph& graph, const Calibration& calibration,
                              std::span<const ValueId> values,
                              std::span<const ActivationSample> samples,
                              std::span<const RangeChoice> choices) {
  const PieceJudge judge(graph, calibration, samples, choices);
  std::vector<std::vector<double>> errors;
  for (const RangeChoice& choice : choices) errors.emplace_back(parts_of(choice).size());
  for_each_sample(
      graph, calibration, values,
      [&](GraphBuilder& builder, std::size_t i, ValueId value) {
        return judge.add(builder, i, value);
      },
      "choosing scales",
      [&](std::size_t, std::size_t i, std::span<const Tensor> found) {
        for (std::size_t e = 0; e < found.size(); ++e)
          errors[i][e % errors[i].size()] += found[e].at(0);
      },
      [&](std::size_t sample) { return judge.inputs(sample); });
  std::vector<float> parts(errors.size());
  std::ranges::transform(errors, parts.begin(), [](const std::vector<double>& own) {
    return kParts[static_cast<std::size_t>(std::ranges::min_element(own) - own.begin())];
  });
  return parts;
}

}  // namespace sinter::fusion
