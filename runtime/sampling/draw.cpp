#include "runtime/sampling/draw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "runtime/sampling/random.h"

namespace sinter::sampling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Gumbel noise is at most -log(2^-53).
constexpr double kMostNoise = 36.7368005696772;

bool is_plain(const TokenSets& sets) { return sets.biased.empty() && sets.seen.empty(); }

/// Logits with bias and penalty.
std::vector<float> adjusted(std::span<const float> logits, const Draw& draw,
                            const TokenSets& sets) {
  std::vector<float> values(logits.begin(), logits.end());
  for (std::size_t i = 0; i < sets.biased.size(); ++i)
    if (const TokenId token = sets.biased[i]; token >= 0 && token < std::ssize(values))
      values[static_cast<std::size_t>(token)] += sets.biases[i];
  for (std::size_t word = 0; word < sets.seen.size(); ++word)
    for (std::uint32_t bits = sets.seen[word]; bits != 0; bits &= bits - 1) {
      const std::size_t token = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
      if (token >= values.size()) break;
      float& value = values[token];
      value = value > 0 ? value / draw.repetition_penalty : value * draw.repetition_penalty;
    }
  return values;
}

std::vector<TokenId> allowed_tokens(std::span<const std::uint32_t> allowed, std::size_t count) {
  std::vector<TokenId> tokens;
  if (allowed.empty()) {
    tokens.resize(count);
    std::iota(tokens.begin(), tokens.end(), 0);
    return tokens;
  }
  for (std::size_t word = 0; word < allowed.size(); ++word)
    for (std::uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      const TokenId token = static_cast<TokenId>(word * 32) + std::countr_zero(bits);
      if (static_cast<std::size_t>(token) < count) tokens.push_back(token);
    }
  return tokens;
}

/// How many of `values`, largest first, have less than `share` of the weight in front of them.
std::size_t nucleus(std::span<const float> values, double temperature, double share) {
  const auto rate = static_cast<float>(1 / temperature);
  const auto weight_of = [&](float value) {
    const float score = value == values[0] ? 0 : (value - values[0]) * rate;
    return static_cast<std::uint64_t>(std::exp(score) * 0x1p40F);
  };
  std::uint64_t total = 0;
  for (const float value : values) total += weight_of(value);
  const auto bound =
      static_cast<std::uint64_t>(std::max(1.0, std::ceil(share * static_cast<double>(total))));
  std::size_t kept = 0;
  for (std::uint64_t before = 0; kept < values.size() && before < bound; ++kept)
    before += weight_of(values[kept]);
  return kept;
}

/// Of values that none of is NaN.
Candidates candidates_of(std::span<const float> values, const Draw& draw, const TokenSets& sets) {
  Candidates result;
  result.tokens = allowed_tokens(sets.allowed, values.size());
  const auto value_of = [&](TokenId token) { return values[static_cast<std::size_t>(token)]; };
  const auto more_likely = [&](TokenId a, TokenId b) {
    return value_of(a) > value_of(b) || (value_of(a) == value_of(b) && a < b);
  };
  if (draw.top_k > 0 && draw.top_k < std::ssize(result.tokens)) {
    const auto end = result.tokens.begin() + draw.top_k;
    std::partial_sort(result.tokens.begin(), end, result.tokens.end(), more_likely);
    result.tokens.erase(end, result.tokens.end());
  } else if (draw.top_p < 1) {
    std::ranges::sort(result.tokens, more_likely);
  }
  double most = -kInfinity;
  for (const TokenId token : result.tokens)
    most = std::max(most, static_cast<double>(value_of(token)));
  for (const TokenId token : result.tokens)
    result.scores.push_back(score_of(value_of(token), most, draw.temperature));
  if (draw.top_p < 1) {
    std::vector<float> sorted;
    for (const TokenId token : result.tokens) sorted.push_back(value_of(token));
    const std::size_t kept = nucleus(sorted, draw.temperature, draw.top_p);
    result.tokens.resize(kept), result.scores.resize(kept);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    if (result.scores[i] < draw.least_score) continue;
    result.tokens[kept] = result.tokens[i], result.scores[kept++] = result.scores[i];
  }
  result.tokens.resize(kept), result.scores.resize(kept);
  return result;
}

/// Of the allowed tokens the first with the largest value; -1 if there is none.
std::int64_t first_of_largest(std::span<const float> values,
                              std::span<const std::uint32_t> allowed) {
  std::int64_t best = -1;
  for (std::size_t word = 0; word < allowed.size(); ++word)
    for (std::uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      const std::size_t token = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
      if (token >= values.size()) break;
      if (best < 0 || values[token] > values[static_cast<std::size_t>(best)])
        best = static_cast<std::int64_t>(token);
    }
  return best;
}

std::int64_t draw_of(const Candidates& all, std::uint64_t seed) {
  const DrawNumbers numbers(seed);
  TokenId best = all.tokens[0];
  double best_sum = -kInfinity;
  for (std::size_t i = 0; i < all.tokens.size(); ++i) {
    const double score = all.scores[i];
    if (score + kMostNoise < best_sum) continue;
    // With -log1p(-u) >= u a noise is at most -log(u): most tokens need no logarithm.
    const double u = numbers.uniform(all.tokens[i]);
    if (u > std::exp(score - best_sum) * (1 + 1e-9)) continue;
    const double sum = score + numbers.gumbel(all.tokens[i]);
    if (sum > best_sum) best = all.tokens[i], best_sum = sum;
  }
  return best;
}

}  // namespace

std::vector<double> Candidates::probabilities() const {
  std::vector<double> result;
  double total = 0;
  for (const double score : scores) total += result.emplace_back(std::exp(score));
  for (double& value : result) value /= total;
  return result;
}

float largest(std::span<const float> values) {
  // In lanes, so that it takes the time of reading them.
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> most;
  most.fill(-std::numeric_limits<float>::infinity());
  std::array<std::uint8_t, kLanes> nans = {};
  std::size_t i = 0;
  const auto take = [&](std::size_t lane, float value) {
    most[lane] = value > most[lane] ? value : most[lane];
    nans[lane] = static_cast<std::uint8_t>(nans[lane] | (value != value));
  };
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, values[i + lane]);
  for (; i < values.size(); ++i) take(0, values[i]);
  if (std::ranges::any_of(nans, [](std::uint8_t nan) { return nan != 0; }))
    return std::numeric_limits<float>::quiet_NaN();
  return *std::ranges::max_element(most);
}

Candidates candidates(std::span<const float> logits, const Draw& draw, const TokenSets& sets) {
  const std::vector<float> values = adjusted(logits, draw, sets);
  if (values.empty() || std::isnan(largest(values))) return {};
  return candidates_of(values, draw, sets);
}

std::int64_t draw_token(std::span<const float> logits, const Draw& draw, const TokenSets& sets) {
  std::vector<float> changed;
  if (!is_plain(sets)) logits = changed = adjusted(logits, draw, sets);
  const float most = largest(logits);
  if (std::isnan(most)) return std::ssize(logits);
  if (draw.temperature > 0 && draw.temperature < kInfinity) {
    const Candidates all = candidates_of(logits, draw, sets);
    if (!all.tokens.empty()) return draw_of(all, draw.seed);
  }
  if (!sets.allowed.empty()) return first_of_largest(logits, sets.allowed);
  return std::ranges::find(logits, most) - logits.begin();
}

TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token, std::size_t count) {
  const double most = largest(logits);
  if (std::isnan(most)) return {};
  double total = 0;
  for (const float logit : logits) total += std::exp(score_of(logit, most, 1));
  const double log_total = std::log(total);
  const auto logprob_of = [&](TokenId id) {
    return static_cast<float>(score_of(logits[static_cast<std::size_t>(id)], most, 1) - log_total);
  };
  TokenLogprobs result{logprob_of(token), {}};
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (auto id = order.begin(); id != end; ++id)
    result.likeliest.emplace_back(*id, logprob_of(*id));
  return result;
}

}  // namespace sinter::sampling
