#include "tools/generate/sampler.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

/// In [0, 1), from the upper 53 bits: the standard's distributions differ between libraries.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw usage_error("temperature {} is not a number from 0 on", options.temperature);
  if (options.top_k < 0) throw usage_error("top-k {} is less than 0", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw usage_error("top-p {} is not in (0, 1]", options.top_p);
}

std::int64_t Sampler::pick(std::span<const float> logits) {
  if (logits.empty()) throw invalid_model_error("the model gave no logits");
  // Greedy choice is all that the host does for a token: it is done at vector speed.
  const float best =
      Eigen::Map<const Eigen::ArrayXf>(logits.data(), static_cast<Eigen::Index>(logits.size()))
          .maxCoeff<Eigen::PropagateNaN>();
  if (std::isnan(best)) throw invalid_model_error("the model gave NaN as a logit");
  // With infinity, or nothing but minus infinity, there are no probabilities.
  if (options_.temperature == 0 || std::isinf(best))
    return std::ranges::find(logits, best) - logits.begin();

  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto more_likely = [&](std::int64_t a, std::int64_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::size_t count = order_.size();
  if (options_.top_k != 0) count = std::min(count, static_cast<std::size_t>(options_.top_k));
  if (count < order_.size())
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count),
                      order_.end(), more_likely);
  else if (options_.top_p < 1)
    std::ranges::sort(order_, more_likely);

  weights_.resize(count);
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double logit = logits[static_cast<std::size_t>(order_[i])];
    weights_[i] = std::exp((logit - best) / options_.temperature);
    total += weights_[i];
  }
  if (options_.top_p < 1) {
    double kept = 0;
    std::size_t n = 0;
    while (n < count && kept < options_.top_p * total) kept += weights_[n++];
    count = n, total = kept;
  }
  double left = uniform(random_) * total;
  std::size_t i = 0;
  while (i + 1 < count && left >= weights_[i]) left -= weights_[i++];
  return order_[i];
}

}  // namespace sinter::tools
