// SPDX-License-Identifier: Apache-2.0
// Vectors of tokens to one vector of the text, as sentence-transformers' modules do it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

enum class Pooling : std::uint8_t {
  kMean,
  kFirst,
  kLast,
  kMax,
  kMeanSqrt,  // the sum, divided by the root of the number of tokens
  kWeighted,  // the mean, weighted by the token's number from 1 on
};

struct PoolingName {
  Pooling kind;
  std::string_view option;  // of --pooling
  std::string_view file;    // "pooling_mode" of a Pooling's config.json
  std::string_view flag;    // the same in older files: true of the one
};
std::span<const PoolingName> pooling_names();
/// The options' names.
std::vector<std::string> pooling_options();
/// Of one of pooling_options().
Pooling pooling_of(std::string_view option);

/// The vector of `rows` [tokens, size], row-major, without the first `skipped` tokens. A text of
/// skipped tokens alone gives zeros.
std::vector<float> pooled(std::span<const float> rows, std::size_t size, Pooling kind,
                          std::size_t skipped = 0);

/// A Dense module: activation(weights x + bias), plus x or residual x if it has a residual.
struct DenseLayer {
  std::vector<float> weights;   // [outputs, inputs]
  std::vector<float> bias;      // empty: there is none
  std::vector<float> residual;  // [outputs, inputs]; empty: x itself
  bool has_residual = false;
  float (*activation)(float) = nullptr;  // null: the identity
  std::size_t inputs = 0, outputs = 0;

  std::vector<float> apply(std::span<const float> x) const;
};

/// The activation that a Dense module's config.json calls `name`,
/// "torch.nn.modules.activation.Tanh" say; null for the identity. Throws Error(kUsage) for unknown
/// ones.
float (*dense_activation(std::string_view name))(float);

}  // namespace sinter::tools
