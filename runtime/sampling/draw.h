// SPDX-License-Identifier: Apache-2.0
// How one token is drawn, and its log probability: the host's definition, which engines and the CPU
// target share and that kernels are tested against. Host code alone.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <sinter/engine.h>

namespace sinter::sampling {

/// How a token is drawn, as SamplingParameters says it.
struct Draw {
  double temperature = 0;  // 0, or infinite: the first of the most likely tokens
  std::int64_t top_k = 0;  // 0: of all
  double top_p = 1;
  /// The logarithm of min-p: scores are logits less the largest, over the temperature.
  double least_score = -std::numeric_limits<double>::infinity();
  float repetition_penalty = 1;
  std::uint64_t seed = 0;  // of this draw: seed_of_draw
};

/// Tokens that are special to a draw. Bit i of a set is bit i % 32 of word i / 32; bits behind the
/// vocabulary do not count.
struct TokenSets {
  std::span<const std::uint32_t> allowed;  // empty: all are
  std::span<const std::uint32_t> seen;     // that the penalty is for; empty: none
  std::span<const TokenId> biased;         // ascending
  std::span<const float> biases;           // one for each

  static bool has(std::span<const std::uint32_t> set, std::size_t token) {
    return (set[token / 32] >> (token % 32) & 1) != 0;
  }
  static std::size_t words(std::int64_t vocabulary) {
    return static_cast<std::size_t>((vocabulary + 31) / 32);
  }
};

/// Tokens that may be drawn, with scores whose softmax they are drawn from.
struct Candidates {
  std::vector<TokenId> tokens;
  std::vector<double> scores;

  /// Of each token, in their order.
  std::vector<double> probabilities() const;
};

/// The largest of `values`, NaN if one is; they are not none.
float largest(std::span<const float> values);

/// 0 where equal, though both are infinite.
inline double score_of(double logit, double most, double temperature) {
  return logit == most ? 0 : (logit - most) / temperature;
}

/// What a token is drawn from, at a temperature above 0; none if a logit is NaN or no token is
/// allowed. Biases are added and penalties applied in float32. Of the top_k largest (equal ones in
/// the order of their ids) those stay before which less than top_p of the weight lies, one at
/// least, and of these those with least_score. A token's weight is e^score, both in float32, in
/// whole units of 2^-40: sums do not depend on their order.
Candidates candidates(std::span<const float> logits, const Draw& draw, const TokenSets& sets);

/// The token; as many as there are if a logit is NaN, -1 if no token is allowed. At a temperature
/// above 0 it is the candidate with the largest sum of score and Gumbel noise (random.h).
std::int64_t draw_token(std::span<const float> logits, const Draw& draw, const TokenSets& sets);

/// Log probabilities of `token`, and of the `count` likeliest tokens, equal ones in the order of
/// their ids: of the logits as they are. Nothing if one of them is NaN.
TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token, std::size_t count);

}  // namespace sinter::sampling
