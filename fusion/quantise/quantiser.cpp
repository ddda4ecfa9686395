#include "fusion/quantise/quantiser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <sinter/error.h>

#include "ir/parallel.h"

namespace sinter::fusion {
namespace {

using ir::Tensor;

constexpr std::size_t kGroupsAtOnce = 64;  // that a thread fits

/// A scale and a zero point.
struct Fit {
  float scale = 0, zero = 0;
};

/// To nearest, halves to even, for |x| < 2^22: additions are vectorised where a call is not.
float rounded(float x) {
  constexpr float kShift = 12582912.0F;
  return (x + kShift) - kShift;
}

class GroupFitter {
 public:
  explicit GroupFitter(const WeightOptions& options)
      : symmetric_(options.symmetric),
        // -2^(bits-1) is left out where there is no zero point: -x is then as near as x.
        low_(static_cast<float>(options.symmetric ? 1 - (1 << (options.bits - 1))
                                                  : -(1 << (options.bits - 1)))),
        high_(static_cast<float>((1 << (options.bits - 1)) - 1)),
        steps_(options.bits == 4 ? 16 : 4) {}

  /// With integers q the scale sum w q / sum q^2 leaves the least of sum (w - s q)^2, and takes
  /// (sum w q)^2 / sum q^2 away from sum w^2: the range that takes most is the best. Rounding with
  /// that scale again can only leave less.
  Fit fit(std::span<const float> w) const {
    const auto [low, high] = std::minmax_element(w.begin(), w.end());
    const float smallest = std::min(*low, 0.0F), largest = std::max(*high, 0.0F);
    Fit best;
    double most = 0;
    for (int step = 0; step < steps_; ++step) {
      const float part = 1.0F - 0.025F * static_cast<float>(step);
      const Fit next = symmetric_ ? Fit{part * std::max(-smallest, largest) / high_, 0}
                                  : with_zero(part * smallest, part * largest);
      if (!(next.scale > 0)) continue;
      const auto [products, squares] = sums(w, next);
      if (squares == 0 || products * products / squares <= most) continue;
      most = products * products / squares;
      best = {static_cast<float>(products / squares), next.zero};
    }
    return best;
  }

  float number(float w, const Fit& fit) const {
    return fit.scale == 0 ? 0.0F : number(w, 1.0F / fit.scale, fit.zero);
  }

 private:
  float number(float w, float inverse, float zero) const {
    return rounded(std::min(std::max(w * inverse + zero, low_), high_));
  }

  /// Zero stays a number of its own: padding and pruned weights are exact.
  Fit with_zero(float smallest, float largest) const {
    const float scale = (largest - smallest) / (high_ - low_);
    if (!(scale > 0)) return {};
    return {scale, std::clamp(std::nearbyint(low_ - smallest / scale), low_, high_)};
  }

  /// sum w q and sum q^2, of the integers q less the zero point.
  std::pair<double, double> sums(std::span<const float> w, const Fit& fit) const {
    constexpr std::size_t kLanes = 8;
    const float inverse = 1.0F / fit.scale;
    std::array<double, kLanes> products{}, squares{};
    std::size_t i = 0;
    for (; i + kLanes <= w.size(); i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        const float x = w[i + l], q = number(x, inverse, fit.zero) - fit.zero;
        products[l] += static_cast<double>(x) * static_cast<double>(q);
        squares[l] += static_cast<double>(q * q);
      }
    }
    for (; i < w.size(); ++i) {
      const float q = number(w[i], inverse, fit.zero) - fit.zero;
      products[0] += static_cast<double>(w[i]) * static_cast<double>(q);
      squares[0] += static_cast<double>(q * q);
    }
    return {std::accumulate(products.begin(), products.end(), 0.0),
            std::accumulate(squares.begin(), squares.end(), 0.0)};
  }

  bool symmetric_;
  float low_, high_;
  int steps_;
};

std::vector<float> as_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32)
    return {tensor.as<float>().begin(), tensor.as<float>().end()};
  std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
  ir::for_each_range(values.size(), 1 << 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      values[i] = static_cast<float>(tensor.at(static_cast<std::int64_t>(i)));
  });
  return values;
}

/// |d| / |y| in the 2-norm, of `count` pairs (y, d) that `pair_at` gives.
template <class PairAt>
double relative_error(std::size_t count, std::size_t length, const PairAt& pair_at) {
  std::vector<std::pair<double, double>> parts((count + length - 1) / length);
  ir::for_each_range(count, length, [&](std::size_t begin, std::size_t end) {
    auto& [size, difference] = parts[begin / length];
    for (std::size_t i = begin; i < end; ++i) {
      const auto [y, d] = pair_at(i);
      size += y * y;
      difference += d * d;
    }
  });
  double size = 0, difference = 0;
  for (const auto& [part_size, part_difference] : parts) {
    size += part_size;
    difference += part_difference;
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

}  // namespace

ir::QuantisedWeights quantise(const Tensor& weights, const WeightOptions& options) {
  const std::int64_t n = weights.shape()[0], k = weights.shape()[1];
  const std::int64_t group = options.group >= k ? 0 : options.group;
  const std::int64_t groups = ir::group_count(k, group), width = group == 0 ? k : group;
  const std::vector<float> w = as_floats(weights);
  if (!std::all_of(w.begin(), w.end(), [](float x) { return std::isfinite(x); }))
    throw Error(ErrorCode::kInvalidModel,
                "weights that are infinite or no numbers cannot be quantised; keep the layer with "
                "--keep");
  const GroupFitter fitter(options);
  std::vector<std::int8_t> values(w.size());
  const auto fits = static_cast<std::size_t>(n * groups);
  std::vector<float> scales(fits);
  std::vector<std::int8_t> zeros(fits);
  ir::for_each_range(fits, kGroupsAtOnce, [&](std::size_t first, std::size_t last) {
    for (std::size_t at = first; at < last; ++at) {
      const std::int64_t row = static_cast<std::int64_t>(at) / groups,
                         g = static_cast<std::int64_t>(at) % groups;
      const std::int64_t begin = row * k + g * width, end = std::min(begin + width, (row + 1) * k);
      const auto part = std::span(w).subspan(static_cast<std::size_t>(begin),
                                             static_cast<std::size_t>(end - begin));
      const Fit fit = fitter.fit(part);
      scales[at] = fit.scale;
      zeros[at] = static_cast<std::int8_t>(fit.zero);
      for (std::size_t i = 0; i < part.size(); ++i)
        values[static_cast<std::size_t>(begin) + i] =
            static_cast<std::int8_t>(fitter.number(part[i], fit));
    }
  });
  ir::QuantisedWeights result;
  result.bits = options.bits;
  result.group = group;
  result.k = k;
  result.values = options.bits == 4 ? ir::pack_four_bits(values, n, k)
                                    : Tensor::of(DType::kInt8, {n, k}, values);
  result.scales = Tensor::of(DType::kFloat32, {n, groups}, scales);
  if (std::any_of(zeros.begin(), zeros.end(), [](std::int8_t zero) { return zero != 0; }))
    result.zero_points = Tensor::of(DType::kInt8, {n, groups}, zeros);
  return result;
}

double weight_error(const Tensor& exact, const Tensor& rounded) {
  const std::vector<float> a = as_floats(exact), b = as_floats(rounded);
  return relative_error(a.size(), 1 << 16, [&](std::size_t i) {
    const auto w = static_cast<double>(a[i]);
    return std::pair(w, w - static_cast<double>(b[i]));
  });
}

double output_error(const Tensor& exact, const Tensor& rounded, std::int64_t rows) {
  const auto n = static_cast<std::size_t>(exact.shape()[0]),
             k = static_cast<std::size_t>(exact.shape()[1]);
  const std::vector<float> a = as_floats(exact), b = as_floats(rounded);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(rows) * k);
  for (float& value : x) value = normal(random);
  return relative_error(static_cast<std::size_t>(rows) * n, 64, [&](std::size_t at) {
    const float *factors = x.data() + at / n * k, *w = a.data() + at % n * k,
                *other = b.data() + at % n * k;
    double y = 0, d = 0;
    for (std::size_t i = 0; i < k; ++i) {
      const auto factor = static_cast<double>(factors[i]);
      y += factor * static_cast<double>(w[i]);
      d += factor * (static_cast<double>(w[i]) - static_cast<double>(other[i]));
    }
    return std::pair(y, d);
  });
}

}  // namespace sinter::fusion
