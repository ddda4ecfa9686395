#include "fusion/eight_bit/activation_scale.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "fusion/quantize/group_fit.h"
#include "ir/parallel.h"

namespace sinter::fusion {
namespace {

// Parts of the whole range, of which the one with the least error is taken.
constexpr std::array kRanges = {1.0F, 0.9F, 0.8F, 0.7F, 0.6F, 0.5F};
constexpr std::array kExponents = {0.4, 0.5, 0.6, 0.7, 0.8};
// What an unsigned range must be smaller than in parts of the signed one to be worth a zero point.
constexpr float kWorthZeroPoint = 0.75F;
// Below, a row is as good as zero.
constexpr double kLeastSquare = 0x1p-60;
// Factors are within this and its inverse: they are divided by and multiplied with.
constexpr float kLargestFactor = 1e4F;

struct IntegerRange {
  float low, high;  // of the numbers
  float scale, zero;
  float rounded(float x) const {
    return (std::clamp(fusion::rounded(x / scale) + zero, low, high) - zero) * scale;
  }
};

std::vector<float> divided(std::span<const float> values, std::span<const float> factors) {
  std::vector<float> result(values.begin(), values.end());
  if (!factors.empty())
    for (std::size_t i = 0; i < result.size(); ++i) result[i] /= factors[i % factors.size()];
  return result;
}

IntegerRange range_of(DType type, float low, float high, float part) {
  if (type == DType::kInt8) {
    constexpr float kMost = 127;
    const float largest = std::max(-low, high);
    return {-kMost - 1, kMost, largest * part / kMost, 0};
  }
  constexpr float kMost = 255;
  const float zero = rounded(-low / (high - low) * kMost);
  return {0, kMost, (high - low) * part / kMost, zero};
}

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Matrix>;

/// For each row of all of the weights, which have as many: what `add(so far, row)` makes of them.
template <typename Add>
std::vector<float> over_rows(std::span<const Tensor> weights, const Add& add) {
  std::vector<float> result(static_cast<std::size_t>(weights[0].shape()[0]));
  for (const Tensor& weight : weights) {
    const ir::HeldBytes held = weight.hold();
    const View w(reinterpret_cast<const float*>(held.bytes.data()), weight.shape()[0],
                 weight.shape()[1]);
    for (std::size_t row = 0; row < result.size(); ++row)
      result[row] = add(result[row], w.row(static_cast<Eigen::Index>(row)));
  }
  return result;
}

/// The largest magnitude in each row of all of the weights.
std::vector<float> largest_of_rows(std::span<const Tensor> weights) {
  return over_rows(weights, [](float so_far, const auto& row) {
    return std::max(so_far, row.cwiseAbs().maxCoeff());
  });
}

std::vector<float> factors_of(std::span<const float> activations, std::span<const float> weights,
                              double exponent) {
  std::vector<float> factors(activations.size(), 1);
  for (std::size_t j = 0; j < factors.size(); ++j)
    if (activations[j] > 0 && weights[j] > 0)
      factors[j] = std::clamp(static_cast<float>(std::pow(activations[j], exponent) /
                                                 std::pow(weights[j], 1 - exponent)),
                              1 / kLargestFactor, kLargestFactor);
  return factors;
}

/// Each row of `x` by its own scale.
void round_tokens(Matrix& x) {
  constexpr float kMost = 127;
  for (Eigen::Index row = 0; row < x.rows(); ++row) {
    const float scale = x.row(row).cwiseAbs().maxCoeff() / kMost;
    if (scale > 0)
      for (float& value : x.row(row)) value = rounded(value / scale) * scale;
  }
}

/// The sum over rows of |a c|^2 / |b c|^2, of columns times `factors` c.
ValueId add_sum_of_ratios(GraphBuilder& builder, ValueId a, ValueId b,
                          const std::vector<float>& factors) {
  const std::int64_t last = std::ssize(builder.type(a).shape) - 1;
  const auto square = [&](ValueId value) {
    return builder.add("ReduceSumSquare",
                       {add_scaled(builder, value, factors, static_cast<std::size_t>(last))},
                       {{"axes", Ints{last}}, {"keepdims", std::int64_t{0}}});
  };
  const ValueId size =
      builder.add("Max", {square(b), builder.scalar(DType::kFloat32, kLeastSquare)});
  const ValueId ratio = builder.add("Div", {square(a), size});
  Ints axes(static_cast<std::size_t>(last));
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  return builder.add("ReduceSum", {ratio}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

/// |x w - x' w'|^2 in parts of |x w|^2, summed over rows of x and over `weights`; x' and w' are
/// rounded behind `factors`.
double product_error(const ActivationSample& sample, std::span<const Tensor> weights,
                     const std::vector<float>& factors, bool per_token) {
  const Eigen::Index k = sample.columns, rows = std::ssize(sample.rows) / k;
  const View exact(sample.rows.data(), rows, k);
  const std::vector<float> smoothed = divided(sample.rows, factors);
  Matrix x = View(smoothed.data(), rows, k);
  if (per_token) {
    round_tokens(x);
  } else {
    const ActivationScale scale =
        possible_scales(sample, factors, DType::kInt8, ZeroPoints::kAny).front();
    const bool is_signed = scale.type == DType::kInt8;
    const IntegerRange range{is_signed ? -128.0F : 0.0F, is_signed ? 127.0F : 255.0F, scale.scale,
                             static_cast<float>(scale.zero)};
    for (float& value : x.reshaped()) value = range.rounded(value);
  }
  double error = 0;
  for (const Tensor& weight : weights) {
    const ir::HeldBytes held = weight.hold();
    const Eigen::Index n = weight.shape()[1];
    const View w(reinterpret_cast<const float*>(held.bytes.data()), k, n);
    constexpr std::size_t kColumns = 64;
    const auto columns = static_cast<std::size_t>(n);
    std::vector<Eigen::ArrayXd> sizes((columns + kColumns - 1) / kColumns),
        differences(sizes.size());
    ir::for_each_range(columns, kColumns, [&](std::size_t begin, std::size_t end) {
      const auto own =
          w.middleCols(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(end - begin));
      Matrix rounded_weights = own;
      if (!factors.empty())
        for (Eigen::Index row = 0; row < k; ++row)
          rounded_weights.row(row) *= factors[static_cast<std::size_t>(row)];
      for (Eigen::Index c = 0; c < rounded_weights.cols(); ++c) {
        constexpr float kMost = 127;
        const float scale = rounded_weights.col(c).cwiseAbs().maxCoeff() / kMost;
        if (scale > 0)
          for (Eigen::Index row = 0; row < k; ++row)
            rounded_weights(row, c) = rounded(rounded_weights(row, c) / scale) * scale;
      }
      const Matrix y = exact * own, approximate = x * rounded_weights;
      sizes[begin / kColumns] = y.rowwise().squaredNorm().cast<double>();
      differences[begin / kColumns] = (y - approximate).rowwise().squaredNorm().cast<double>();
    });
    Eigen::ArrayXd size = Eigen::ArrayXd::Constant(rows, kLeastSquare);
    Eigen::ArrayXd difference = Eigen::ArrayXd::Zero(rows);
    for (std::size_t part = 0; part < sizes.size(); ++part) {
      size += sizes[part];
      difference += differences[part];
    }
    error += (difference / size).sum();
  }
  return error;
}

}  // namespace

std::vector<ActivationScale> possible_scales(const ActivationSample& sample,
                                             std::vector<float> smoothing, DType type,
                                             ZeroPoints zeros) {
  const std::vector<float> lows = divided(sample.low, smoothing),
                           highs = divided(sample.high, smoothing);
  const float low = *std::ranges::min_element(lows), high = *std::ranges::max_element(highs);
  const float largest = std::max(-low, high);
  ActivationScale whole;
  whole.type = type;
  whole.smoothing = std::move(smoothing);
  whole.axis = sample.axis;
  if (largest == 0) return {whole};
  if (!is_integer(type)) {
    whole.scale = largest / static_cast<float>(largest_of_eight_bits(type));
    return {whole};
  }
  const bool is_unsigned =
      (low == 0 && zeros != ZeroPoints::kNone) ||
      (zeros == ZeroPoints::kAny && high - low < kWorthZeroPoint * 2 * largest);
  whole.type = is_unsigned ? DType::kUInt8 : DType::kInt8;
  std::vector<ActivationScale> result;
  for (const float part : kRanges) {
    const IntegerRange range = range_of(whole.type, low, high, part);
    result.push_back(whole);
    result.back().scale = range.scale;
    result.back().zero = static_cast<std::int64_t>(range.zero);
  }
  return result;
}

std::vector<ActivationScale> best_scales(const Graph& graph, const Calibration& calibration,
                                         std::span<const ValueId> values,
                                         std::span<const ScaleChoice> choices) {
  const auto probe = [&](GraphBuilder& builder, std::size_t i, ValueId value) {
    const auto& [possible, importance, by_row] = choices[i];
    value = add_divided(builder, value, possible.front());
    std::vector<ValueId> errors;
    for (const ActivationScale& scale : possible) {
      const ValueId error = builder.add("Sub", {add_rounded(builder, value, scale, false), value});
      const std::size_t axis = possible.front().axis;
      if (importance.empty())
        errors.push_back(add_sum_of_squares(builder, error));
      else if (by_row)
        errors.push_back(add_sum_of_ratios(builder, error, value, importance));
      else
        errors.push_back(add_sum_of_squares(builder, add_scaled(builder, error, importance, axis)));
    }
    return errors;
  };
  std::vector<std::vector<double>> errors(values.size(), {0});
  if (std::ranges::any_of(choices, [](const ScaleChoice& c) { return c.possible.size() > 1; }))
    for_each_sample(graph, calibration, values, probe, "choosing scales",
                    [&](std::size_t, std::size_t i, std::span<const Tensor> found) {
                      errors[i].resize(found.size());
                      for (std::size_t c = 0; c < found.size(); ++c) errors[i][c] += found[c].at(0);
                    });
  std::vector<ActivationScale> result;
  for (std::size_t i = 0; i < values.size(); ++i)
    result.push_back(choices[i].possible[static_cast<std::size_t>(
        std::ranges::min_element(errors[i]) - errors[i].begin())]);
  return result;
}

std::vector<float> row_norms(std::span<const Tensor> weights, std::span<const float> smoothing) {
  std::vector<float> result =
      over_rows(weights, [](float so_far, const auto& row) { return so_far + row.squaredNorm(); });
  for (std::size_t row = 0; row < result.size(); ++row)
    result[row] = std::sqrt(result[row]) * (smoothing.empty() ? 1 : smoothing[row]);
  return result;
}

std::vector<float> best_smoothing(const ActivationSample& sample, std::span<const Tensor> weights,
                                  const EightBitOptions& options) {
  if (options.smoothing == 0.0) return {};
  std::vector<float> activations(sample.low.size());
  for (std::size_t j = 0; j < activations.size(); ++j)
    activations[j] = std::max(-sample.low[j], sample.high[j]);
  const std::vector<float> rows = largest_of_rows(weights);
  if (options.smoothing) return factors_of(activations, rows, *options.smoothing);
  std::vector<float> best;
  double least =
      product_error(sample, weights, best, options.activation_scales == ActivationScales::kToken);
  for (const double exponent : kExponents) {
    std::vector<float> factors = factors_of(activations, rows, exponent);
    const double error = product_error(sample, weights, factors,
                                       options.activation_scales == ActivationScales::kToken);
    if (error >= least) continue;
    least = error;
    best = std::move(factors);
  }
  return best;
}

}  // namespace sinter::fusion
