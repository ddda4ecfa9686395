// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/draw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "runtime/sampling/random.h"
#include "runtime/sampling/weights.h"

namespace sinter::sampling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Upper bound of the Gumbel noise: -log(2^-53).
constexpr double kMostNoise = 36.7368005696772;

bool is_plain(const TokenSets& sets) { return sets.biased.empty() && sets.seen.empty(); }

/// Logits plus biases, with the repetition penalty.
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

/// The minimum of values without NaN; vectorizes as largest() does.
float smallest(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> least;
  least.fill(std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      least[lane] = values[i + lane] < least[lane] ? values[i + lane] : least[lane];
  for (; i < values.size(); ++i) least[0] = std::min(least[0], values[i]);
  return *std::ranges::min_element(least);
}

/// Values of the allowed tokens, in the order of their ids.
class AllowedRow {
 public:
  AllowedRow(std::span<const float> all, std::span<const std::uint32_t> allowed) : values_(all) {
    if (allowed.empty()) return;
    for (std::size_t word = 0; word < allowed.size(); ++word)
      for (std::uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
        const std::size_t token = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
        if (token >= all.size()) break;
        tokens_.push_back(static_cast<TokenId>(token));
        own_.push_back(all[token]);
      }
    has_tokens_ = true;
    values_ = own_;
  }
  AllowedRow(const AllowedRow&) = delete;
  AllowedRow& operator=(const AllowedRow&) = delete;

  std::span<const float> values() const { return values_; }
  TokenId token(std::uint32_t place) const {
    return has_tokens_ ? tokens_[place] : static_cast<TokenId>(place);
  }
  /// Whether a comes first: the larger value, or the smaller id if equal.
  bool operator()(std::uint32_t a, std::uint32_t b) const {
    return values_[a] > values_[b] || (values_[a] == values_[b] && a < b);
  }

 private:
  std::span<const float> values_;
  bool has_tokens_ = false;
  std::vector<TokenId> tokens_;
  std::vector<float> own_;
};

using Places = std::vector<std::uint32_t>;  // indices into a row

/// The weight that must be reached for a share of `total`.
std::uint64_t bound_of(double share, std::uint64_t total) {
  return static_cast<std::uint64_t>(std::max(1.0, std::ceil(share * static_cast<double>(total))));
}

/// The length of the nucleus (top-p): the number of `values`, sorted descending, whose preceding
/// weight is less than `share` of the total.
std::size_t nucleus(std::span<const float> values, double temperature, double share) {
  if (values.empty()) return 0;
  const Weights weights(values[0], temperature);
  std::uint64_t total = 0;
  for (const float value : values) total += weights.of(value);
  const std::uint64_t bound = bound_of(share, total);
  std::size_t kept = 0;
  for (std::uint64_t before = 0; kept < values.size() && before < bound; ++kept)
    before += weights.of(values[kept]);
  return kept;
}

/// The nucleus (top-p) of a row with values in [`least`, `most`], unordered. Does not sort the row:
/// a histogram over scores finds the bucket that reaches the share. Then nth_element bisects that
/// bucket's tokens. Valid until the thread's next call.
std::span<std::uint32_t> nucleus_of(const AllowedRow& row, float most, float least,
                                    double temperature, double share) {
  constexpr std::size_t kBuckets = 2048;
  constexpr auto kLast = static_cast<float>(kBuckets - 1);
  const std::span<const float> values = row.values();
  const Weights weights(most, temperature);
  // The histogram covers the scores with nonzero weight, or the row's range if that is smaller.
  const float reach = std::min(-weights.score_of(least), -Weights::kLeastScore);
  const float unit = -kLast / std::max(reach, 1e-6F);
  // Reused, so that a draw allocates no row-sized buffers.
  thread_local struct {
    std::vector<std::uint16_t> buckets;
    Places places;
  } scratch;
  if (scratch.buckets.size() < values.size()) {
    scratch.buckets.resize(values.size());
    scratch.places.resize(values.size() + 1);
  }
  std::vector<std::uint16_t>& buckets = scratch.buckets;
  std::array<std::uint64_t, kBuckets> sums = {};
  constexpr std::size_t kChunk = 512;
  std::array<std::uint64_t, kChunk> found;
  std::array<std::int32_t, kChunk> numbers;
  for (std::size_t at = 0; at < values.size(); at += kChunk) {
    const auto chunk = values.subspan(at, std::min(kChunk, values.size() - at));
    weights.find(chunk, unit, kLast, found.data(), numbers.data());
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      buckets[at + i] = static_cast<std::uint16_t>(numbers[i]);
      sums[static_cast<std::size_t>(numbers[i])] += found[i];
    }
  }
  const std::uint64_t bound =
      bound_of(share, std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}));
  std::size_t edge = 0;
  std::uint64_t before = 0;
  while (edge + 1 < kBuckets && before + sums[edge] < bound) before += sums[edge++];
  // Branch-free: the branch would be unpredictable.
  Places& places = scratch.places;
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    places[count] = i;
    count += buckets[i] <= edge ? 1 : 0;
  }
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(count);
  auto first = std::partition(places.begin(), end,
                              [&](std::uint32_t place) { return buckets[place] < edge; });
  auto last = end;
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, std::cref(row));
    std::uint64_t front = 0;
    for (auto place = first; place != middle; ++place) front += weights.of(values[*place]);
    if (before + front >= bound) {
      last = middle;
    } else {
      before += front;
      first = middle;
    }
  }
  return std::span(places.begin(), last);
}

/// The tokens of a row that may be drawn.
struct Choice {
  float most = 0;  // the largest value
  /// nullopt: all. Points into `own`, or into the thread's nucleus_of().
  std::optional<std::span<std::uint32_t>> places;
  Places own;
  bool is_sorted = false;  // descending by value
};

/// The row has at least one value and no NaN.
Choice choose(const AllowedRow& row, const Draw& draw) {
  const std::span<const float> values = row.values();
  Choice choice;
  choice.most = largest(values);
  if (draw.top_k > 0 && draw.top_k < std::ssize(values)) {
    Places& places = choice.own;
    places.resize(values.size());
    std::iota(places.begin(), places.end(), std::uint32_t{0});
    const auto end = places.begin() + draw.top_k;
    std::partial_sort(places.begin(), end, places.end(), std::cref(row));
    places.erase(end, places.end());
    choice.is_sorted = true;
    if (draw.top_p < 1) {
      std::vector<float> sorted;
      for (const std::uint32_t place : places) sorted.push_back(values[place]);
      places.resize(nucleus(sorted, draw.temperature, draw.top_p));
    }
    choice.places = places;
  } else if (draw.top_p < 1) {
    choice.places = nucleus_of(row, choice.most, smallest(values), draw.temperature, draw.top_p);
  }
  return choice;
}

/// Calls `take` for each index that top-k and top-p keep.
template <typename Take>
void each_place(const AllowedRow& row, const Choice& choice, const Take& take) {
  if (choice.places)
    for (const std::uint32_t place : *choice.places) take(place);
  else
    for (std::uint32_t place = 0; place < row.values().size(); ++place) take(place);
}

/// The first allowed token with the largest value; -1 if none is allowed.
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

/// Equal sums are rare: the smallest token wins, with top-p the likeliest. -1: no token.
std::int64_t draw_of(const AllowedRow& row, const Choice& choice, const Draw& draw) {
  const DrawNumbers numbers(draw.seed);
  const std::span<const float> values = row.values();
  std::optional<std::uint32_t> best;
  double best_sum = -kInfinity;
  const bool has_order = choice.places && !choice.is_sorted;
  // Skips most tokens by their random number alone: noise is at most -log(u), because -log1p(-u) >=
  // u, and scores are at most 0.
  double most_number = 1;
  const auto consider = [&](std::uint32_t place) {
    const double u = numbers.uniform(row.token(place));
    if (u > most_number) return;
    const double score = score_of(values[place], choice.most, draw.temperature);
    if (score < draw.least_score || score + kMostNoise < best_sum) return;
    if (u > std::exp(score - best_sum) * (1 + 1e-9)) return;
    const double sum = score + numbers.gumbel(row.token(place));
    const bool is_likelier = sum == best_sum && has_order && best && row(place, *best);
    if (!(sum > best_sum) && !is_likelier) return;
    best = place;
    best_sum = sum;
    most_number = std::exp(-best_sum) * (1 + 1e-9);
  };
  each_place(row, choice, consider);
  return best ? row.token(*best) : -1;
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
  // Independent lanes, so that the loop vectorizes and runs at memory speed.
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
  Candidates result;
  const AllowedRow row(values, sets.allowed);
  if (row.values().empty()) return result;
  const Choice choice = choose(row, draw);
  if (choice.places && !choice.is_sorted) std::ranges::sort(*choice.places, std::cref(row));
  each_place(row, choice, [&](std::uint32_t place) {
    const double score = score_of(row.values()[place], choice.most, draw.temperature);
    if (score < draw.least_score) return;
    result.tokens.push_back(row.token(place)), result.scores.push_back(score);
  });
  return result;
}

std::int64_t draw_token(std::span<const float> logits, const Draw& draw, const TokenSets& sets) {
  std::vector<float> changed;
  if (!is_plain(sets)) logits = changed = adjusted(logits, draw, sets);
  const float most = largest(logits);
  if (std::isnan(most)) return std::ssize(logits);
  if (draw.temperature > 0 && draw.temperature < kInfinity) {
    const AllowedRow row(logits, sets.allowed);
    if (!row.values().empty())
      if (const auto token = draw_of(row, choose(row, draw), draw); token >= 0) return token;
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
