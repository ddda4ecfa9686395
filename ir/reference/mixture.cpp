// SPDX-License-Identifier: Apache-2.0
// Routing and grouped matmuls of mixtures of experts, in float64.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/reference/kernels.h"
#include "ir/scale_format.h"

namespace sinter::ir::reference {
namespace {

using Numbers = std::vector<double>;
using Chosen = std::vector<std::size_t>;

/// The first `count` indices in descending order, as ArgSort's.
Chosen greatest(std::span<const double> values, std::int64_t count) {
  Chosen order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b]))
      return std::isnan(values[a]) && !std::isnan(values[b]);
    return values[a] > values[b];
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

/// Routing of one token.
class TokenRouter {
 public:
  TokenRouter(const Attrs& attrs, std::span<const double> logits, const Numbers& bias)
      : attrs_(attrs), logits_(logits), bias_(bias) {}

  Chosen choose() {
    Numbers choice(logits_.begin(), logits_.end());
    const std::string& name = attrs_.get_string("scores");
    scores_ = choice;
    if (name == "softmax") softmax();
    if (name == "sigmoid")
      for (double& score : scores_) score = 1 / (1 + std::exp(-score));
    if (!bias_.empty() || attrs_.get_int("groups") > 1) choice = scores_;
    for (std::size_t e = 0; e < bias_.size(); ++e) choice[e] += bias_[e];
    mask_groups(choice);
    return greatest(choice, attrs_.get_int("k"));
  }

  Numbers shares(const Chosen& chosen) const {
    Numbers shares;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      shares.push_back(attrs_.get_string("scores") == "sparsemixer" ? mixed(chosen, i)
                                                                    : scores_[chosen[i]]);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) {
      if (attrs_.get_int("normalise") != 0) share /= sum + attrs_.get_float("epsilon");
      share *= attrs_.get_float("scale");
    }
    return shares;
  }

 private:
  void softmax() {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const double x : logits_) most = std::isnan(x) ? x : std::max(most, x);
    for (double& score : scores_) sum += score = std::exp(score - most);
    for (double& score : scores_) score /= sum;
  }

  void mask_groups(Numbers& choice) const {
    const auto groups = static_cast<std::size_t>(attrs_.get_int("groups"));
    if (groups == 1) return;
    const std::size_t size = choice.size() / groups;
    Numbers totals(groups, 0);
    for (std::size_t g = 0; g < groups; ++g) {
      const auto of_group = std::span(choice).subspan(g * size, size);
      for (const std::size_t e : greatest(of_group, attrs_.get_int("group_scores")))
        totals[g] += of_group[e];
    }
    const Chosen kept = greatest(totals, attrs_.get_int("kept_groups"));
    const bool has_zeros = attrs_.get_int("zero_outside") != 0;
    for (std::size_t e = 0; e < choice.size(); ++e)
      if (std::ranges::count(kept, e / size) == 0)
        choice[e] = has_zeros ? 0 : -std::numeric_limits<double>::infinity();
  }

  /// The share of choice `i` by sparsemixer.
  double mixed(const Chosen& chosen, std::size_t i) const {
    const double most = logits_[chosen[i]];
    double sum = 0;
    for (std::size_t e = 0; e < logits_.size(); ++e) {
      if (std::find(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(i), e) !=
          chosen.begin() + static_cast<std::ptrdiff_t>(i))
        continue;
      const double distance = (most - logits_[e]) / std::max(std::abs(logits_[e]), most);
      if (!(distance > 2 * attrs_.get_float("jitter"))) sum += std::exp(logits_[e] - most);
    }
    return 1 / sum;
  }

  const Attrs& attrs_;
  std::span<const double> logits_;
  const Numbers& bias_;
  Numbers scores_;
};

}  // namespace

std::vector<Tensor> evaluate_route(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Numbers logits = inputs[0].to_doubles();
  const Numbers bias = inputs.size() > 1 ? inputs[1].to_doubles() : Numbers();
  const auto experts = static_cast<std::size_t>(inputs[0].shape()[1]);
  Ints choices;
  Numbers shares;
  for (std::size_t at = 0; at < logits.size(); at += experts) {
    TokenRouter router(attrs, std::span(logits).subspan(at, experts), bias);
    const Chosen chosen = router.choose();
    choices.insert(choices.end(), chosen.begin(), chosen.end());
    const Numbers own = router.shares(chosen);
    shares.insert(shares.end(), own.begin(), own.end());
  }
  const Ints shape = concrete_shape(outputs[0].shape);
  return {Tensor::from_ints(DType::kInt32, shape, choices),
          Tensor::from_doubles(outputs[1].dtype, shape, shares)};
}

std::vector<Tensor> evaluate_grouped_matmul(const Attrs& attrs, Tensors inputs, Types outputs) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const ProductFormats formats(attrs);
  const std::int64_t rows = inputs[0].shape()[0], k = inputs[0].shape()[1],
                     groups = inputs[1].shape()[0], n = outputs[0].shape[1].value();
  Numbers weights;
  if (formats.w) {
    std::vector<Tensor> parts;  // of all groups, one matrix
    for (const Tensor& part : inputs.subspan(1, inputs.size() - 2))
      parts.push_back(part.reshaped({groups * part.shape()[1], part.shape()[2]}));
    weights = dequantized(weights_of(attrs, parts, k), DType::kFloat64).to_doubles();
  } else {
    weights = inputs[1].to_doubles();
  }
  const Numbers x = inputs[0].to_doubles();
  const Ints offsets = inputs.back().to_ints();
  Numbers y(static_cast<std::size_t>(rows * n), 0);
  for (std::int64_t g = 0; g < groups && k > 0 && n > 0; ++g) {
    const auto at = static_cast<std::size_t>(g);
    const std::int64_t begin = std::clamp<std::int64_t>(offsets[at], 0, rows),
                       end = std::clamp(offsets[at + 1], begin, rows);
    Eigen::Map<Matrix> result(y.data() + begin * n, end - begin, n);
    const Eigen::Map<const Matrix> left(x.data() + begin * k, end - begin, k);
    const double* const own = weights.data() + g * k * n;
    if (formats.w || attrs.get_int("transposed") != 0)
      result.noalias() = left * Eigen::Map<const Matrix>(own, n, k).transpose();
    else
      result.noalias() = left * Eigen::Map<const Matrix>(own, k, n);
  }
  return {Tensor::from_doubles(outputs[0].dtype, {rows, n}, y)};
}

}  // namespace sinter::ir::reference
