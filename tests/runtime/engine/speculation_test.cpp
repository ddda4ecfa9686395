// SPDX-License-Identifier: Apache-2.0
// Drafts: what is proposed, and that accepted ones leave the distribution as it is.
#include "runtime/engine/speculation.h"

#include <cmath>

#include <gmock/gmock.h>

#include "runtime/engine/sampler.h"

namespace sinter::testing {
namespace {

using engine::accept_drafts;
using engine::look_up_drafts;
using engine::SlotSampler;
using sampling::DrawNumbers;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Tokens = std::vector<TokenId>;

TEST(LookUpDrafts, TakesTheLongestMatchAndOfEqualOnesTheLast) {
  EXPECT_THAT(look_up_drafts(Tokens{1, 2, 3, 9, 2, 3, 8, 1, 2, 3}, 1, 3, 2), ElementsAre(9, 2));
  EXPECT_THAT(look_up_drafts(Tokens{1, 2, 3, 9, 2, 3, 8, 1, 2, 3}, 1, 2, 2), ElementsAre(8, 1));
  EXPECT_THAT(look_up_drafts(Tokens{5, 1, 5, 2, 5}, 1, 4, 9), ElementsAre(2, 5));
}

TEST(LookUpDrafts, AMatchMayReachIntoWhatItRepeats) {
  EXPECT_THAT(look_up_drafts(Tokens{4, 4, 4, 4}, 1, 2, 3), ElementsAre(4));
  EXPECT_THAT(look_up_drafts(Tokens{1, 2, 1, 2, 1, 2}, 2, 4, 8), ElementsAre(1, 2));
}

TEST(LookUpDrafts, TooShortAMatchIsNone) {
  EXPECT_THAT(look_up_drafts(Tokens{1, 2, 3, 9, 4, 3}, 2, 4, 2), IsEmpty());
  EXPECT_THAT(look_up_drafts(Tokens{1}, 1, 4, 2), IsEmpty());
  EXPECT_THAT(look_up_drafts(Tokens{}, 1, 4, 2), IsEmpty());
  EXPECT_THAT(look_up_drafts(Tokens{1, 2, 3}, 1, 4, 2), IsEmpty());
}

/// Pearson's statistic of counts against what is expected.
double chi_square(const std::vector<int>& counts, const std::vector<double>& probabilities,
                  int draws) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    if (expected > 0) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0);
    }
  }
  return sum;
}

// Rows of a target and of a draft that differs, also in what they leave out.
const std::vector<double> kTarget = {0.5, 0.2, 0.2, 0.1, 0.0, 0.1, 0.1, 0.1,
                                     0.3, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2};
const std::vector<double> kDraft = {0.1, 0.6, 0.0, 0.1, 0.2, 0.25, 0.25, 0.25, 0.25, 0.0};
constexpr int kTokens = 5;
// 0.9999 of chi-square with 4 and 24 degrees of freedom.
constexpr double kMost4 = 23.5, kMost24 = 58.6;

TokenId draw_draft(int row, std::uint64_t seed) {
  double left = DrawNumbers(~seed, static_cast<std::uint64_t>(row)).uniform(0);
  TokenId token = 0;
  for (; token + 1 < kTokens; ++token) {
    left -= kDraft[static_cast<std::size_t>(row * kTokens + token)];
    if (left < 0) break;
  }
  return token;
}

TEST(AcceptDrafts, TokensAreDistributedAsTheTargetAlone) {
  constexpr int kDraws = 40000;
  std::vector<int> first(kTokens), pairs(kTokens * kTokens);
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const Tokens drafts = {draw_draft(0, seed), draw_draft(1, seed)};
    const auto result = accept_drafts(kTarget, kDraft, drafts, seed, 7);
    const TokenId one = result.accepted > 0 ? drafts[0] : result.next;
    // Where the first one failed, the next step draws the second.
    TokenId two = result.accepted > 1 ? drafts[1] : result.next;
    if (result.accepted == 0)
      two = accept_drafts(std::span(kTarget).subspan(kTokens, kTokens), {}, {}, seed, 8).next;
    ++first[static_cast<std::size_t>(one)];
    ++pairs[static_cast<std::size_t>(one * kTokens + two)];
    accepted += result.accepted > 0;
  }
  std::vector<double> expected;
  double overlap = 0;
  for (int a = 0; a < kTokens; ++a) {
    overlap += std::min(kTarget[static_cast<std::size_t>(a)], kDraft[static_cast<std::size_t>(a)]);
    for (int b = 0; b < kTokens; ++b)
      expected.push_back(kTarget[static_cast<std::size_t>(a)] *
                         kTarget[static_cast<std::size_t>(kTokens + b)]);
  }
  EXPECT_LT(chi_square(first, {kTarget.begin(), kTarget.begin() + kTokens}, kDraws), kMost4);
  EXPECT_LT(chi_square(pairs, expected, kDraws), kMost24);
  // As often as can be: what the two distributions share.
  EXPECT_NEAR(accepted, kDraws * overlap, 5 * std::sqrt(kDraws * overlap * (1 - overlap)));
}

TEST(AcceptDrafts, BehindAllDraftsComesADrawFromTheLastRow) {
  const std::vector<double> certain = {0, 1, 0, 0, 1, 0}, target = {0, 1, 0, 0, 0, 1};
  const auto result = accept_drafts(target, std::span(certain).first(3), Tokens{1}, 3, 0);
  EXPECT_EQ(result.accepted, 1);
  EXPECT_EQ(result.next, 2);
}

SlotSampler drawing_sampler(std::uint64_t seed) {
  engine::SlotStart start;
  SamplingParameters sampling;
  sampling.temperature = 1;
  start.sampling = std::make_shared<const SamplingParameters>(sampling);
  start.seed = seed;
  return SlotSampler(start);
}

std::vector<float> logits_of(int row) {
  std::vector<float> logits;
  for (int token = 0; token < kTokens; ++token)
    logits.push_back(
        static_cast<float>(std::log(kTarget[static_cast<std::size_t>(row * kTokens + token)])));
  return logits;
}

TEST(CertainDrafts, HoldAsOftenAsLikelyAndChangeNothing) {
  constexpr int kDraws = 20000;
  std::vector<float> logits = logits_of(0);
  for (const float value : logits_of(1)) logits.push_back(value);
  std::vector<int> pairs(kTokens * kTokens);
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    SlotSampler guessed = drawing_sampler(seed), plain = drawing_sampler(seed);
    auto tokens = guessed.sample(logits, Tokens{1}).tokens;
    accepted += tokens.size() == 2;
    if (tokens.size() == 1) tokens.push_back(guessed.draw(logits_of(1)));
    const Tokens alone = {plain.draw(logits_of(0)), plain.draw(logits_of(1))};
    ASSERT_EQ(tokens, alone);
    ++pairs[static_cast<std::size_t>(tokens[0] * kTokens + tokens[1])];
  }
  std::vector<double> expected;
  for (int a = 0; a < kTokens; ++a)
    for (int b = 0; b < kTokens; ++b)
      expected.push_back(kTarget[static_cast<std::size_t>(a)] *
                         kTarget[static_cast<std::size_t>(kTokens + b)]);
  EXPECT_LT(chi_square(pairs, expected, kDraws), kMost24);
  EXPECT_NEAR(accepted, 0.2 * kDraws, 5 * std::sqrt(kDraws * 0.2 * 0.8));
}

}  // namespace
}  // namespace sinter::testing
