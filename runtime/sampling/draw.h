// SPDX-License-Identifier: Apache-2.0
// Draws a token and computes log probabilities on the host. The engine and the CPU target share
// this definition, and GPU kernels are tested against it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <sinter/engine.h>

namespace sinter::sampling {

/// Parameters of one draw; SamplingParameters documents them.
struct Draw {
  double temperature = 0;  // 0 or infinite: argmax, the first token if equal
  std::int64_t top_k = 0;  // 0: no limit
  double top_p = 1;
  /// The logarithm of min-p. A score is (logit - largest logit) / temperature.
  double least_score = -std::numeric_limits<double>::infinity();
  float repetition_penalty = 1;
  std::uint64_t seed = 0;  // of this draw: see seed_of_draw
};

/// Per-token inputs of a draw. Sets are bitmasks: bit i is bit i % 32 of word i / 32. Bits beyond
/// the vocabulary are ignored.
struct TokenSets {
  std::span<const std::uint32_t> allowed;  // empty: all
  std::span<const std::uint32_t> seen;     // tokens with the repetition penalty; empty: none
  std::span<const TokenId> biased;         // ascending
  std::span<const float> biases;           // one for each biased token

  static bool has(std::span<const std::uint32_t> set, std::size_t token) {
    return (set[token / 32] >> (token % 32) & 1) != 0;
  }
  static std::size_t words(std::int64_t vocabulary) {
    return static_cast<std::size_t>((vocabulary + 31) / 32);
  }
};

/// Tokens that may be drawn. The softmax of the scores is their distribution.
struct Candidates {
  std::vector<TokenId> tokens;
  std::vector<double> scores;

  /// Probability of each token, in the order of `tokens`.
  std::vector<double> probabilities() const;
};

/// The largest of `values`, NaN if one is NaN. `values` must not be empty.
float largest(std::span<const float> values);

/// Equal logits score 0, also infinite ones.
inline double score_of(double logit, double most, double temperature) {
  return logit == most ? 0 : (logit - most) / temperature;
}

/// The candidates of a draw at a temperature above 0; empty if a logit is NaN or no token is
/// allowed. Adds biases and applies penalties in float32. Takes the top_k largest values (smaller
/// ids first if equal). Of these keeps, in descending order, each whose preceding weight is below
/// top_p of the total, at least one. Finally drops those below least_score. A token's weight is
/// e^score in float32, rounded down to multiples of 2^-40, so that sums do not depend on their
/// order.
Candidates candidates(std::span<const float> logits, const Draw& draw, const TokenSets& sets);

/// The drawn token; logits.size() if a logit is NaN; -1 if no token is allowed. At a temperature
/// above 0, the candidate with the largest score plus Gumbel noise (random.h).
std::int64_t draw_token(std::span<const float> logits, const Draw& draw, const TokenSets& sets);

/// Log probabilities of `token` and of the `count` likeliest tokens (smaller ids first if equal),
/// from the unmodified logits. Empty if a logit is NaN.
TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token, std::size_t count);

}  // namespace sinter::sampling
