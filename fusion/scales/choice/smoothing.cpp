// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/smoothing.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fusion/scales/choice/activation_scale.h"
#include "fusion/scales/rounding/group_fit.h"
#include "ir/parallel.h"

namespace sinter::fusion {
namespace {

constexpr std::array kExponents = {0.4, 0.5, 0.6, 0.7, 0.8};
// Smoothing must reduce the squared error to this part of the unsmoothed one.
constexpr double kWorthSmoothing = 0.97;
// Below, a row counts as zero.
constexpr double kLeastProductSquare = 0x1p-60;
// Factors are limited to this and its inverse, as values are divided and multiplied by them.
constexpr float kLargestFactor = 1e4F;
constexpr float kLargestInteger = 127;  // of integers scaled by their maximum

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Matrix>;

/// For each row index, accumulates `add(so far, row)` over that row of all weights, which have
/// equally many rows.
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

/// Numbers along `row`, rounded with a scale from their maximum.
template <typename Row>
void round_by_largest(Row&& row) {
  const float scale = row.cwiseAbs().maxCoeff() / kLargestInteger;
  if (scale > 0)
    for (float& value : row) value = rounded(value / scale) * scale;
}

/// Squared norms of x w and of x (w - w'), for each row of x.
struct RowErrors {
  Eigen::ArrayXd sizes, differences;
};

/// w' is w with smoothed, then rounded columns.
RowErrors weight_errors(const Matrix& x, const Tensor& weight, const std::vector<float>& factors) {
  const Eigen::Index k = x.cols(), n = weight.shape()[1];
  const ir::HeldBytes held = weight.hold();
  const View w(reinterpret_cast<const float*>(held.bytes.data()), k, n);
  constexpr std::size_t kColumns = 64;
  const auto columns = static_cast<std::size_t>(n);
  std::vector<RowErrors> parts((columns + kColumns - 1) / kColumns);
  const auto scale_rows = [&](Matrix& matrix, bool divides) {
    for (Eigen::Index row = 0; !factors.empty() && row < k; ++row) {
      const float factor = factors[static_cast<std::size_t>(row)];
      matrix.row(row) *= divides ? 1 / factor : factor;
    }
  };
  ir::for_each_range(columns, kColumns, [&](std::size_t begin, std::size_t end) {
    const auto own =
        w.middleCols(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(end - begin));
    Matrix change = own;
    scale_rows(change, false);
    for (Eigen::Index c = 0; c < change.cols(); ++c) round_by_largest(change.col(c));
    scale_rows(change, true);
    change -= own;
    const Matrix y = x * own, difference = x * change;
    parts[begin / kColumns] = {y.rowwise().squaredNorm().cast<double>(),
                               difference.rowwise().squaredNorm().cast<double>()};
  });
  RowErrors all{Eigen::ArrayXd::Constant(x.rows(), kLeastProductSquare),
                Eigen::ArrayXd::Zero(x.rows())};
  for (const RowErrors& part : parts) {
    all.sizes += part.sizes;
    all.differences += part.differences;
  }
  return all;
}

/// Sampled rows of an activation, in folds that are judged with what the other pieces give.
class SampledRows {
 public:
  explicit SampledRows(const ActivationSample& sample) : sample_(sample) {
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<float> rows;
      for (std::size_t p = fold; p < sample.pieces.size(); p += kFolds)
        rows.insert(rows.end(), sample.pieces[p].rows.begin(), sample.pieces[p].rows.end());
      if (!rows.empty())
        folds_.emplace_back(fold,
                            View(rows.data(), std::ssize(rows) / sample.columns, sample.columns));
    }
  }

  /// Error of integer matmuls with `weights` after smoothing: the sum over rows and weights of |x w
  /// - x' w'|^2 / |x w|^2, relative to each row or to the mean row.
  double product_error(std::span<const Tensor> weights, const SmoothingOf& smoothing, bool by_row,
                       bool per_token) const {
    const ColumnRanges all = ranges_of(sample_);
    const ActivationScale whole =
        whole_scale(all, 1, smoothing(all), DType::kInt8, ZeroPoints::kAny);
    // The same candidates for all, so that only the factors decide.
    const std::span<const float> parts = range_parts(true);
    std::vector<Sums> sums(per_token ? 1 : parts.size(), Sums(weights.size()));
    for (const auto& [fold, x] : folds_) {
      const ActivationScale scale =
          judging_scale(sample_, whole, smoothing,
                        [fold = fold](std::size_t piece) { return piece % kFolds == fold; });
      std::vector<Matrix> squares;  // of rounding errors
      for (std::size_t part = 0; part < sums.size(); ++part)
        squares.push_back(rounding_errors(x, scale, per_token ? 0 : parts[part]).cwiseAbs2());
      for (std::size_t w = 0; w < weights.size(); ++w)
        add_product(x, weights[w], scale.smoothing, squares, by_row, w, sums);
    }
    double least = std::numeric_limits<double>::infinity();
    for (const Sums& own : sums) {
      double error = 0;
      for (std::size_t w = 0; w < weights.size(); ++w)
        error += own.differences[w] / (by_row ? 1 : own.sizes[w]);
      least = std::min(least, error);
    }
    return least;
  }

 private:
  static constexpr std::size_t kFolds = 4;
  /// One entry for each of the weights.
  struct Sums {
    explicit Sums(std::size_t count) : differences(count), sizes(count) {}
    std::vector<double> differences, sizes;
  };

  /// Assumes that the errors of columns are independent.
  static void add_product(const Matrix& x, const Tensor& weight, const std::vector<float>& factors,
                          std::span<const Matrix> squares, bool by_row, std::size_t number,
                          std::vector<Sums>& sums) {
    const RowErrors product = weight_errors(x, weight, factors);
    const std::vector<float> norms = row_norms(std::span(&weight, 1));
    const Eigen::Map<const Eigen::VectorXf> norm(norms.data(), std::ssize(norms));
    for (std::size_t part = 0; part < sums.size(); ++part) {
      const Eigen::ArrayXd difference =
          product.differences + (squares[part] * norm.cwiseAbs2()).array().template cast<double>();
      sums[part].differences[number] +=
          by_row ? (difference / product.sizes).sum() : difference.sum();
      sums[part].sizes[number] += product.sizes.sum();
    }
  }

  /// With `part` 0, each row has its own scale.
  static Matrix rounding_errors(const Matrix& x, ActivationScale scale, float part) {
    Matrix rounded = x;
    const auto scale_columns = [&](bool divides) {
      for (Eigen::Index j = 0; !scale.smoothing.empty() && j < rounded.cols(); ++j) {
        const float factor = scale.smoothing[static_cast<std::size_t>(j)];
        rounded.col(j) *= divides ? 1 / factor : factor;
      }
    };
    scale_columns(true);
    scale.scale *= part;
    if (part == 0)
      for (Eigen::Index row = 0; row < rounded.rows(); ++row) round_by_largest(rounded.row(row));
    else if (scale.scale > 0)
      for (float& value : rounded.reshaped()) value = rounded_by(scale, value);
    scale_columns(false);
    return rounded - x;
  }

  const ActivationSample& sample_;
  std::vector<std::pair<std::size_t, Matrix>> folds_;
};

std::vector<float> largest_of_rows(std::span<const Tensor> weights) {
  return over_rows(weights, [](float so_far, const auto& row) {
    return std::max(so_far, row.cwiseAbs().maxCoeff());
  });
}

}  // namespace

SmoothingOf smoothing_with(double exponent, std::span<const Tensor> weights) {
  if (exponent == 0) return [](const ColumnRanges&) { return std::vector<float>(); };
  return [exponent, largest = largest_of_rows(weights)](const ColumnRanges& ranges) {
    std::vector<float> factors(ranges.low.size(), 1);
    for (std::size_t j = 0; j < factors.size(); ++j) {
      const float activation = std::max(-ranges.low[j], ranges.high[j]);
      if (activation > 0 && largest[j] > 0)
        factors[j] = std::clamp(
            static_cast<float>(std::pow(activation, exponent) / std::pow(largest[j], 1 - exponent)),
            1 / kLargestFactor, kLargestFactor);
    }
    return factors;
  };
}

double best_exponent(const ActivationSample& sample, std::span<const Tensor> weights, bool by_row,
                     const EightBitOptions& options) {
  if (options.smoothing) return *options.smoothing;
  const SampledRows rows(sample);
  const auto error_of = [&](double exponent) {
    return rows.product_error(weights, smoothing_with(exponent, weights), by_row,
                              options.activation_scales == ActivationScales::kToken);
  };
  double best = 0, least = kWorthSmoothing * error_of(0);
  for (const double exponent : kExponents) {
    const double error = error_of(exponent);
    if (error >= least) continue;
    least = error;
    best = exponent;
  }
  return best;
}

std::vector<float> row_norms(std::span<const Tensor> weights) {
  std::vector<float> result =
      over_rows(weights, [](float so_far, const auto& row) { return so_far + row.squaredNorm(); });
  for (float& norm : result) norm = std::sqrt(norm);
  return result;
}

}  // namespace sinter::fusion
