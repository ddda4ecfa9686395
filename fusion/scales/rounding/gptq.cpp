// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/rounding/gptq.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sinter/error.h>
#include <sinter/float8.h>

#include "ir/parallel.h"

namespace sinter::fusion {
namespace {

/// Rows of weights that are rounded together: a strip stores their columns contiguously, so that
/// loops over rows vectorize.
constexpr Eigen::Index kRows = 32;
/// Columns whose errors are propagated to later columns at once, as a GEMM.
constexpr Eigen::Index kBlock = 128;
/// Damping of the moments, relative to their mean: the calibration does not show all inputs. With 8
/// bits there is less error to compensate than overfitting to few samples costs.
constexpr double kDamping = 0.05, kDampingOfEightBits = 0.5;
/// Sweeps over groups of few-bit integers: three remove a fifth of the squared error, five more
/// another thirtieth. With many bits, rounding alone is close enough.
constexpr int kSweeps = 4;
constexpr float kFewIntegers = 16;

using Index = Eigen::Index;
using Wide = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Columns = Eigen::Matrix<float, Eigen::Dynamic, kRows, Eigen::RowMajor>;
using Lane = Eigen::Array<float, 1, kRows>;

/// Common to all rows of a layer.
struct Layer {
  Matrix moments;  // damped
  Matrix spread;   // upper triangular u with u'u = inverse of the moments
};

Layer layer_of(std::span<const float> moments, Index k, double damping) {
  Wide damped =
      Eigen::Map<const Matrix>(moments.data(), k, k).cast<double>().selfadjointView<Eigen::Upper>();
  const double mean = damped.diagonal().mean();
  damped.diagonal().array() += mean > 0 ? damping * mean : 1.0;
  // With rows and columns reversed, the lower Cholesky factor l of the moments becomes upper, and
  // the inverse of l l' is (1/l)' (1/l). This avoids computing and factoring the inverse.
  const Eigen::LLT<Wide> factors(Wide(damped.reverse()));
  if (!damped.allFinite() || factors.info() != Eigen::Success)
    throw Error(ErrorCode::kUsage,
                "calibration makes inputs of the layer infinite or no numbers: give --calibration "
                "other samples, or keep the layer with --keep");
  const Wide upper = Wide(factors.matrixL()).reverse();
  const Wide spread = upper.triangularView<Eigen::Upper>().solve(Wide(Wide::Identity(k, k)));
  return {damped.cast<float>(), spread.cast<float>()};
}

/// Few-bit integers; each group gets scale and zero point when it is reached.
class FittedIntegers {
 public:
  explicit FittedIntegers(const GroupFitter& fitter) : fitter_(fitter) {}
  GroupFit fit(Index, Index, std::span<const float> group,
               std::span<const float> importance) const {
    GroupFit found = fitter_.fit(group, importance);
    // Any scale is right for a group of zeros; it is a divisor.
    if (found.scale == 0) found.scale = 1;
    return found;
  }
  float nearest(float exact) const {
    return rounded(std::min(std::max(exact, fitter_.low()), fitter_.high()));
  }
  bool symmetric() const { return fitter_.symmetric(); }

 private:
  const GroupFitter& fitter_;
};

/// 8-bit numbers with a given scale for each group of each row.
class ScaledNumbers {
 public:
  ScaledNumbers(DType type, std::span<const float> scales, Index groups)
      : scales_(scales), groups_(groups) {
    if (is_integer(type)) {
      largest_ = std::numeric_limits<std::int8_t>::max();
      least_power_ = most_power_ = 1;
      shift_ = shift_of(0);
      return;
    }
    const Float8Format format = float8_format(type);
    largest_ = static_cast<float>(decode_float8(type, format.largest));
    least_power_ = std::ldexp(1.0F, 1 - format.bias);  // subnormals share the exponent
    most_power_ = largest_;
    shift_ = shift_of(format.mantissa_bits);
  }
  GroupFit fit(Index row, Index group, std::span<const float>, std::span<const float>) const {
    const Index at = row * groups_ + group;
    return {at < std::ssize(scales_) ? scales_[static_cast<std::size_t>(at)] : 1.0F, 0};
  }
  /// Rounds to nearest, ties to even.
  float nearest(float exact) const {
    const float x = std::min(std::max(exact, -largest_), largest_);
    constexpr std::uint32_t kExponent = 0x7f800000;
    const auto below = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & kExponent);
    const float shift = std::min(std::max(below, least_power_), most_power_) * shift_;
    return (x + shift) - shift;
  }
  bool symmetric() const { return true; }

 private:
  /// Adding and subtracting this leaves that many bits after the leading bit of 2^0.
  static float shift_of(int bits) { return std::ldexp(1.5F, 23 - bits); }

  std::span<const float> scales_;
  Index groups_;
  float largest_ = 0, least_power_ = 0, most_power_ = 0, shift_ = 0;
};

/// kRows rows of a layer, starting at row `first`.
template <class Rule>
class Strip {
 public:
  Strip(const Layer& layer, const Rule& rule, Index width, Index first, Columns weights)
      : layer_(layer),
        rule_(rule),
        first_(first),
        k_(weights.rows()),
        width_(width),
        weights_(std::move(weights)),
        q_(k_, kRows),
        made_(k_, kRows),
        scales_(groups(), kRows),
        zeros_(groups(), kRows) {}

  void round() {
    Columns left = weights_, errors(kBlock, kRows);
    for (Index begin = 0; begin < k_; begin += kBlock) {
      const Index end = std::min(k_, begin + kBlock);
      for (Index i = begin; i < end; ++i) {
        if (i % width_ == 0) fit(left, i);
        round_column(left, i);
        errors.row(i - begin) = (left.row(i) - made_.row(i)) / layer_.spread(i, i);
        for (Index j = i + 1; j < end; ++j)
          left.row(j) -= layer_.spread(i, j) * errors.row(i - begin);
      }
      if (end < k_)
        left.bottomRows(k_ - end).noalias() -=
            layer_.spread.block(begin, end, end - begin, k_ - end).transpose() *
            errors.topRows(end - begin);
    }
  }

  /// Reduces (w - v) moments (w - v)', group by group.
  void improve() {
    Columns slope = layer_.moments * (made_ - weights_);  // half the derivative with respect to v
    for (Index g = 0; g < groups(); ++g) {
      const Index begin = g * width_, count = std::min(width_, k_ - begin), end = begin + count;
      const Columns before = made_.middleRows(begin, count);
      const Matrix own = layer_.moments.block(begin, begin, count, count);
      refit(own, slope, g, begin, count);
      slope.middleRows(begin, count).noalias() += own * (made_.middleRows(begin, count) - before);
      for (Index i = begin; i < end; ++i) choose_again(own, slope, g, begin, i);
      const Columns change = made_.middleRows(begin, count) - before;
      if (begin > 0)
        slope.topRows(begin).noalias() += layer_.moments.block(0, begin, begin, count) * change;
      if (end < k_)
        slope.bottomRows(k_ - end).noalias() +=
            layer_.moments.block(end, begin, k_ - end, count) * change;
    }
  }

  const Columns& numbers() const { return q_; }
  const Columns& scales() const { return scales_; }
  const Columns& zeros() const { return zeros_; }

 private:
  Index groups() const { return (k_ + width_ - 1) / width_; }

  void fit(const Columns& left, Index begin) {
    const Index count = std::min(width_, k_ - begin), g = begin / width_;
    std::vector<float> group(static_cast<std::size_t>(count)), importance(group.size());
    // Cost of an error that later columns cannot compensate.
    for (Index i = 0; i < count; ++i) {
      const float own = layer_.spread(begin, begin) / layer_.spread(begin + i, begin + i);
      importance[static_cast<std::size_t>(i)] = own * own;
    }
    for (Index row = 0; row < kRows; ++row) {
      for (Index i = 0; i < count; ++i) group[static_cast<std::size_t>(i)] = left(begin + i, row);
      const GroupFit found = rule_.fit(first_ + row, g, group, importance);
      scales_(g, row) = found.scale;
      zeros_(g, row) = found.zero;
    }
  }

  /// The numbers nearest to `wanted`, and their dequantized values.
  void nearest(const Lane& wanted, Index g, Lane& q, Lane& value) const {
    for (Index row = 0; row < kRows; ++row) {
      q[row] = rule_.nearest(wanted[row] / scales_(g, row) + zeros_(g, row));
      value[row] = (q[row] - zeros_(g, row)) * scales_(g, row);
    }
  }

  void round_column(const Columns& left, Index i) {
    Lane q, value;
    nearest(left.row(i), i / width_, q, value);
    q_.row(i) = q;
    made_.row(i) = value;
  }

  /// Scale and zero point, or only the scale, with the least error of group `g` for fixed integers:
  /// the minimum of a quadratic in one or two variables.
  void refit(const Matrix& own, const Columns& slope, Index g, Index begin, Index count) {
    const Columns q = q_.middleRows(begin, count);
    const Columns spread_q = own * q;
    const Eigen::VectorXf spread_one = own.rowwise().sum();
    const double one_one = static_cast<double>(spread_one.sum());
    for (Index row = 0; row < kRows; ++row) {
      const auto dot = [&](const auto& a, const auto& b) { return static_cast<double>(a.dot(b)); };
      const auto numbers = q.col(row);
      const auto down = slope.col(row).segment(begin, count);
      const double q_q = dot(numbers, spread_q.col(row)), along_q = dot(down, numbers);
      const double scale = static_cast<double>(scales_(g, row)),
                   zero = static_cast<double>(zeros_(g, row));
      double more_scale = 0, more_shift = 0;
      if (rule_.symmetric()) {
        if (q_q > 0) more_scale = -along_q / q_q;
      } else {
        const double q_one = dot(numbers, spread_one), along_one = static_cast<double>(down.sum()),
                     determinant = q_q * one_one - q_one * q_one;
        constexpr double kSingular = 1e-6;  // the integers are nearly equal
        if (determinant > kSingular * q_q * one_one) {
          more_scale = (along_one * q_one - along_q * one_one) / determinant;
          more_shift = (along_q * q_one - along_one * q_q) / determinant;
        }
      }
      const double found = scale + more_scale;
      // A negative or vanishing scale means that the group hardly matters.
      if (!(found > 0.1 * scale)) continue;
      const double found_zero = (scale * zero - more_shift) / found;
      constexpr double kFarZero = 128;  // beyond it integers would cancel
      if (std::abs(found_zero) > kFarZero) continue;
      scales_(g, row) = static_cast<float>(found);
      zeros_(g, row) = static_cast<float>(found_zero);
      for (Index i = begin; i < begin + count; ++i)
        made_(i, row) = (q_(i, row) - zeros_(g, row)) * scales_(g, row);
    }
  }

  /// Chooses column `i` of group `g` again, with all others fixed.
  void choose_again(const Matrix& own, Columns& slope, Index g, Index begin, Index i) {
    const Lane old = made_.row(i);
    const Lane wanted = old - Lane(slope.row(i)) / layer_.moments(i, i);
    Lane q, value;
    nearest(wanted, g, q, value);
    const Lane change = value - old;
    if ((change == 0).all()) return;
    q_.row(i) = q;
    made_.row(i) = value;
    for (Index j = 0; j < own.cols(); ++j)
      slope.row(begin + j) += own(i - begin, j) * change.matrix();
  }

  const Layer& layer_;
  const Rule& rule_;
  Index first_, k_, width_;
  Columns weights_, q_, made_;
  Columns scales_, zeros_;  // [groups, kRows]
};

/// Rounds weights [n, k] in strips; several threads call take(first row, rows, strip).
template <class Rule, class Take>
void round_strips(std::span<const float> weights, Index n, Index k, Index width, const Rule& rule,
                  std::span<const float> moments, double damping, int sweeps, const Take& take) {
  const Layer layer = layer_of(moments, k, damping);
  ir::for_each_range(static_cast<std::size_t>(n), kRows, [&](std::size_t first, std::size_t last) {
    const auto row = static_cast<Index>(first), rows = static_cast<Index>(last - first);
    Columns columns = Columns::Zero(k, kRows);
    columns.leftCols(rows) =
        Eigen::Map<const Matrix>(weights.data(), n, k).middleRows(row, rows).transpose();
    Strip<Rule> strip(layer, rule, width, row, std::move(columns));
    strip.round();
    for (int sweep = 0; sweep < sweeps; ++sweep) strip.improve();
    take(row, rows, strip);
  });
}

}  // namespace

RoundedWeights round_compensated(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                 std::int64_t width, const GroupFitter& fitter,
                                 std::span<const float> moments) {
  const std::int64_t groups = (k + width - 1) / width;
  const int sweeps = fitter.high() - fitter.low() < kFewIntegers ? kSweeps : 0;
  RoundedWeights result;
  result.values.resize(weights.size());
  result.scales.resize(static_cast<std::size_t>(n * groups));
  result.zeros.resize(result.scales.size());
  round_strips(weights, n, k, width, FittedIntegers(fitter), moments, kDamping, sweeps,
               [&](Index row, Index rows, const auto& strip) {
                 const auto rows_of = [&](auto& all, Index columns) {
                   using Element = std::remove_reference_t<decltype(all[0])>;
                   return Eigen::Map<Eigen::Matrix<Element, -1, -1, Eigen::RowMajor>>(
                       all.data() + row * columns, rows, columns);
                 };
                 rows_of(result.values, k) =
                     strip.numbers().leftCols(rows).transpose().template cast<std::int8_t>();
                 rows_of(result.scales, groups) = strip.scales().leftCols(rows).transpose();
                 rows_of(result.zeros, groups) = strip.zeros().leftCols(rows).transpose();
               });
  return result;
}

std::vector<float> round_compensated(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                     std::int64_t width, DType type, std::span<const float> scales,
                                     std::span<const float> moments) {
  std::vector<float> result(weights.size());
  const std::int64_t groups = (k + width - 1) / width;
  round_strips(weights, n, k, width, ScaledNumbers(type, scales, groups), moments,
               kDampingOfEightBits, 0, [&](Index row, Index rows, const auto& strip) {
                 Eigen::Map<Matrix>(result.data(), n, k).middleRows(row, rows) =
                     strip.numbers().leftCols(rows).transpose();
               });
  return result;
}

}  // namespace sinter::fusion
