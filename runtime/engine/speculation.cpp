// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/speculation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sinter::engine {
namespace {

/// Draws a token by unnormalized weights.
TokenId draw_by(std::span<const double> weights, const sampling::DrawNumbers& numbers) {
  TokenId best = 0;
  double best_sum = -std::numeric_limits<double>::infinity();
  for (TokenId token = 0; token < std::ssize(weights); ++token) {
    const double weight = weights[static_cast<std::size_t>(token)];
    if (weight <= 0) continue;
    const double sum = std::log(weight) + numbers.gumbel(token);
    if (sum > best_sum) best = token, best_sum = sum;
  }
  return best;
}

}  // namespace

std::vector<TokenId> look_up_drafts(std::span<const TokenId> tokens, int least, int most,
                                    int count) {
  const auto size = static_cast<int>(tokens.size());
  int longest = least - 1, behind = -1;
  // `end`: end of a match, where its continuation begins.
  for (int end = size - 1; end >= least && longest < most; --end) {
    int length = 0;
    while (length < most && length < end &&
           tokens[static_cast<std::size_t>(end - 1 - length)] ==
               tokens[static_cast<std::size_t>(size - 1 - length)])
      ++length;
    if (length > longest) longest = length, behind = end;
  }
  if (behind < 0) return {};
  const auto found = tokens.subspan(static_cast<std::size_t>(behind));
  const auto taken = found.first(std::min(found.size(), static_cast<std::size_t>(count)));
  return {taken.begin(), taken.end()};
}

Acceptance accept_drafts(std::span<const double> target, std::span<const double> draft_of,
                         std::span<const TokenId> drafts, std::uint64_t seed,
                         std::uint64_t first_draw) {
  const std::size_t vocabulary = target.size() / (drafts.size() + 1);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto p = target.subspan(i * vocabulary, vocabulary);
    const auto q = draft_of.subspan(i * vocabulary, vocabulary);
    const auto token = static_cast<std::size_t>(drafts[i]);
    const sampling::DrawNumbers numbers(seed, first_draw + i);
    if (numbers.uniform(-1) * q[token] < p[token]) continue;
    std::vector<double> rest(vocabulary);
    for (std::size_t t = 0; t < vocabulary; ++t) rest[t] = std::max(0.0, p[t] - q[t]);
    return {static_cast<int>(i), draw_by(rest, numbers)};
  }
  return {static_cast<int>(drafts.size()),
          draw_by(target.subspan(drafts.size() * vocabulary), {seed, first_draw + drafts.size()})};
}

}  // namespace sinter::engine
