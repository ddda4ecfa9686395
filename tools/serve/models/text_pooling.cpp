// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/text_pooling.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

constexpr PoolingName kNames[] = {
    {Pooling::kMean, "mean", "mean", "pooling_mode_mean_tokens"},
    {Pooling::kFirst, "first", "cls", "pooling_mode_cls_token"},
    {Pooling::kLast, "last", "lasttoken", "pooling_mode_lasttoken"},
    {Pooling::kMax, "max", "max", "pooling_mode_max_tokens"},
    {Pooling::kMeanSqrt, "mean-sqrt", "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {Pooling::kWeighted, "weighted", "weightedmean", "pooling_mode_weightedmean_tokens"},
};

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::VectorXf product(const std::vector<float>& matrix, const DenseLayer& layer,
                        const Eigen::Map<const Eigen::VectorXf>& x) {
  return Eigen::Map<const Matrix>(matrix.data(), static_cast<Eigen::Index>(layer.outputs),
                                  static_cast<Eigen::Index>(layer.inputs)) *
         x;
}

}  // namespace

std::span<const PoolingName> pooling_names() { return kNames; }

std::vector<std::string> pooling_options() {
  std::vector<std::string> names;
  for (const PoolingName& name : kNames) names.emplace_back(name.option);
  return names;
}

Pooling pooling_of(std::string_view option) {
  return std::ranges::find(kNames, option, &PoolingName::option)->kind;
}

std::vector<float> pooled(std::span<const float> rows, std::size_t size, Pooling kind,
                          std::size_t skipped) {
  std::vector<float> vector(size);
  const std::size_t tokens = rows.size() / size;
  if (skipped >= tokens) return vector;
  const auto row = [&](std::size_t token) { return rows.subspan(token * size, size); };
  if (kind == Pooling::kFirst || kind == Pooling::kLast) {
    std::ranges::copy(row(kind == Pooling::kFirst ? skipped : tokens - 1), vector.begin());
    return vector;
  }
  if (kind == Pooling::kMax) std::ranges::fill(vector, -std::numeric_limits<float>::infinity());
  double weight = 0;
  for (std::size_t token = skipped; token < tokens; ++token) {
    const std::span<const float> x = row(token);
    if (kind == Pooling::kMax) {
      for (std::size_t e = 0; e < size; ++e) vector[e] = std::max(vector[e], x[e]);
      continue;
    }
    const float share = kind == Pooling::kWeighted ? static_cast<float>(token + 1) : 1;
    weight += share;
    for (std::size_t e = 0; e < size; ++e) vector[e] += share * x[e];
  }
  if (kind == Pooling::kMax) return vector;
  const auto divisor = static_cast<float>(kind == Pooling::kMeanSqrt ? std::sqrt(weight) : weight);
  for (float& x : vector) x /= divisor;
  return vector;
}

std::vector<float> DenseLayer::apply(std::span<const float> x) const {
  if (x.size() != inputs)
    throw usage_error("a Dense module takes {} numbers, and the vectors have {}", inputs, x.size());
  const Eigen::Map<const Eigen::VectorXf> in(x.data(), static_cast<Eigen::Index>(inputs));
  Eigen::VectorXf out = product(weights, *this, in);
  for (std::size_t i = 0; i < outputs; ++i) {
    float& y = out[static_cast<Eigen::Index>(i)];
    if (!bias.empty()) y += bias[i];
    if (activation != nullptr) y = activation(y);
  }
  if (has_residual) {
    if (residual.empty())
      out += in;
    else
      out += product(residual, *this, in);
  }
  return {out.begin(), out.end()};
}

float (*dense_activation(std::string_view name))(float) {
  const std::string_view own = name.substr(name.rfind('.') + 1);
  if (own.empty() || own == "Identity") return nullptr;
  if (own == "Tanh") return [](float x) { return std::tanh(x); };
  if (own == "ReLU") return [](float x) { return std::max(x, 0.0F); };
  if (own == "Sigmoid") return [](float x) { return 1 / (1 + std::exp(-x)); };
  if (own == "SiLU") return [](float x) { return x / (1 + std::exp(-x)); };
  if (own == "GELU")
    return [](float x) { return 0.5F * x * (1 + std::erf(x / std::numbers::sqrt2_v<float>)); };
  throw usage_error("a Dense module has the activation '{}', which is not known", ir::shown(name));
}

}  // namespace sinter::tools
