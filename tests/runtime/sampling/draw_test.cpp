// SPDX-License-Identifier: Apache-2.0
// The host's draws against the reference of SampleTokens.
#include "runtime/sampling/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/sampling/random.h"
#include "runtime/sampling/weights.h"
#include "tests/support/sampling_operands.h"

namespace sinter::test {
namespace {

TEST(DrawToken, IsWhatTheReferenceDraws) {
  for (const std::int64_t count : {1, 37, 3000})
    for (int kind = 0; kind < 4; ++kind) {
      const auto inputs = sampling_operands(DType::kFloat32, count, kind, 5);
      const ir::Tensor expected = ir::evaluate_op(ir::get_op("SampleTokens"), {}, inputs)[0];
      const std::vector<SampledRow> rows = rows_to_draw();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const SampledRow& row = rows[i];
        // What there is not is left to those that read a plan's inputs.
        if (row.first_bias < 0 || row.first_bias + std::min<std::int64_t>(row.biases, 9) > 5)
          continue;
        const auto words = static_cast<std::size_t>((count + 31) / 32);
        const auto set = [&](std::int64_t number) -> std::span<const std::uint32_t> {
          if (number < 0) return {};
          return {reinterpret_cast<const std::uint32_t*>(inputs[3].bytes().data()) +
                      static_cast<std::size_t>(number) * words,
                  words};
        };
        const auto first = static_cast<std::size_t>(row.first_bias),
                   biases = static_cast<std::size_t>(row.biases);
        const sampling::TokenSets sets{set(row.allowed), set(row.seen),
                                       inputs[4].as<std::int32_t>().subspan(first, biases),
                                       inputs[5].as<float>().subspan(first, biases)};
        const sampling::Draw draw{
            row.temperature,
            row.top_k,
            row.top_p,
            row.least_score,
            static_cast<float>(row.penalty),
            static_cast<std::uint64_t>(inputs[2].at_int(static_cast<std::int64_t>(i) * 6))};
        const auto logits = inputs[0].as<float>().subspan(i * static_cast<std::size_t>(count),
                                                          static_cast<std::size_t>(count));
        EXPECT_EQ(sampling::draw_token(logits, draw, sets),
                  expected.at_int(static_cast<std::int64_t>(i)))
            << count << " kind " << kind << " row " << i;
      }
    }
}

/// The exponential of a vocabulary's weights has the bits of the library's.
TEST(Weights, AreThoseOfTheExponential) {
  std::mt19937 random(7);
  std::vector<float> values;
  for (int i = 0; i < 300000; ++i)
    values.push_back(-std::uniform_real_distribution<float>(0, 30)(random));
  values[1] = 0, values[2] = -28, values[3] = -std::numeric_limits<float>::infinity();
  const sampling::Weights weights(0, 1);
  std::vector<std::uint64_t> found(values.size());
  std::vector<std::int32_t> buckets(values.size());
  weights.find(values, -10, 250, found.data(), buckets.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    const auto expected = x < -28 ? 0 : static_cast<std::uint64_t>(std::exp(x) * 0x1p40F);
    ASSERT_EQ(found[i], expected) << x;
    ASSERT_EQ(weights.of(x), expected) << x;
    ASSERT_EQ(buckets[i], static_cast<std::int32_t>(std::min(x * -10, 250.0F))) << x;
  }
}

/// What may be drawn, all of it sorted: top-p as its definition says it.
sampling::Candidates sorted_candidates(std::span<const float> values, const sampling::Draw& draw,
                                       std::span<const std::uint32_t> allowed) {
  sampling::Candidates result;
  for (std::size_t token = 0; token < values.size(); ++token)
    if (allowed.empty() || sampling::TokenSets::has(allowed, token))
      result.tokens.push_back(static_cast<TokenId>(token));
  const auto value_of = [&](TokenId token) { return values[static_cast<std::size_t>(token)]; };
  std::ranges::sort(result.tokens, [&](TokenId a, TokenId b) {
    return value_of(a) > value_of(b) || (value_of(a) == value_of(b) && a < b);
  });
  const float most = value_of(result.tokens[0]);
  const auto rate =
      std::max(static_cast<float>(1 / draw.temperature), std::numeric_limits<float>::min());
  const auto weight_of = [&](TokenId token) {
    const float score = value_of(token) == most ? 0 : (value_of(token) - most) * rate;
    return static_cast<std::uint64_t>(std::exp(score) * 0x1p40F);
  };
  std::uint64_t total = 0, before = 0;
  for (const TokenId token : result.tokens) total += weight_of(token);
  const auto bound =
      static_cast<std::uint64_t>(std::max(1.0, std::ceil(draw.top_p * static_cast<double>(total))));
  std::size_t kept = 0;
  for (; kept < result.tokens.size() && before < bound; ++kept)
    before += weight_of(result.tokens[kept]);
  result.tokens.resize(kept);
  std::erase_if(result.tokens, [&](TokenId token) {
    return sampling::score_of(value_of(token), most, draw.temperature) < draw.least_score;
  });
  for (const TokenId token : result.tokens)
    result.scores.push_back(sampling::score_of(value_of(token), most, draw.temperature));
  return result;
}

/// Logits of some kind: normal, in steps with many equal ones, all equal, far apart, hidden by
/// -inf, of one that is certain, with infinite ones.
std::vector<float> logits_of_kind(int kind, std::size_t count, std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    const float of_kind[] = {value,
                             std::round(value * 2) / 2,
                             1.5F,
                             value * 1000,
                             i % 3 == 0 ? value : -kInfinity,
                             i == count / 2 ? 30 + value : value,
                             i % 97 == 5 ? kInfinity : value,
                             -kInfinity};
    values[i] = of_kind[kind];
  }
  return values;
}

/// A nucleus is found without sorting the vocabulary: it is the one that sorting finds, in its
/// order, and the draw is the one from it.
TEST(TopP, IsThatOfASortedVocabulary) {
  std::mt19937 random(3);
  int drawn = 0;
  for (const std::size_t count : {1U, 2U, 33U, 1000U, 20000U})
    for (int kind = 0; kind < 8; ++kind) {
      const std::vector<float> values = logits_of_kind(kind, count, random);
      std::vector<std::uint32_t> some(sampling::TokenSets::words(static_cast<std::int64_t>(count)));
      for (auto& word : some) word = random() | 1U;
      for (const bool all : {true, false})
        for (const double share : {1e-9, 0.1, 0.5, 0.9, 0.99, 0.999999})
          for (const double temperature : {1e-300, 0.01, 0.7, 1.0, 40.0, 1e300}) {
            sampling::Draw draw{.temperature = temperature, .top_p = share};
            if (random() % 3 == 0) draw.least_score = std::log(0.02);
            const std::span<const std::uint32_t> allowed =
                all ? std::span<const std::uint32_t>{} : some;
            const auto expected = sorted_candidates(values, draw, allowed);
            const auto found = sampling::candidates(values, draw, {allowed, {}, {}, {}});
            ASSERT_EQ(found.tokens, expected.tokens) << count << " kind " << kind;
            ASSERT_EQ(found.scores, expected.scores);
            for (draw.seed = 1; draw.seed <= 3; ++draw.seed) {
              // The largest sum of score and noise, of equal ones the most likely.
              const sampling::DrawNumbers numbers(draw.seed);
              TokenId best = expected.tokens[0];
              double most = -std::numeric_limits<double>::infinity();
              for (std::size_t i = 0; i < expected.tokens.size(); ++i) {
                const double sum = expected.scores[i] + numbers.gumbel(expected.tokens[i]);
                if (sum > most) best = expected.tokens[i], most = sum;
              }
              ASSERT_EQ(sampling::draw_token(values, draw, {allowed, {}, {}, {}}), best)
                  << count << " kind " << kind << " top-p " << share << " at " << temperature;
              ++drawn;
            }
          }
    }
  EXPECT_GT(drawn, 5000);
}

TEST(Logprobs, AreThoseOfTheReference) {
  constexpr std::int64_t kLikeliest = 20;
  for (const std::int64_t count : {1, 37, 3000})
    for (int kind = 0; kind < 4; ++kind) {
      const auto inputs = logprobs_operands(DType::kFloat32, count, kind, 5);
      const auto expected = ir::evaluate_op(ir::get_op("SampleTokens"),
                                            {{"likeliest", ir::Attr(kLikeliest)}}, inputs);
      int told = 0;
      for (std::int64_t row = 0; row < inputs[0].shape()[0]; ++row) {
        const std::int64_t token = expected[0].at_int(row);
        const std::int32_t wanted = wanted_of_row(row);
        if (wanted < 0 || token < 0) {
          EXPECT_EQ(expected[1].at_int(row * kLikeliest), -1);
          continue;
        }
        const auto logits = inputs[0].as<float>().subspan(static_cast<std::size_t>(row * count),
                                                          static_cast<std::size_t>(count));
        const TokenLogprobs found =
            sampling::logprobs_of(logits, static_cast<TokenId>(token),
                                  static_cast<std::size_t>(std::min<std::int64_t>(wanted, 20)));
        EXPECT_FLOAT_EQ(found.logprob, static_cast<float>(expected[2].at(row * 21)));
        for (std::int64_t i = 0; i < kLikeliest; ++i) {
          const std::int64_t id = expected[1].at_int(row * kLikeliest + i);
          ASSERT_EQ(id >= 0, i < std::ssize(found.likeliest)) << row;
          if (id < 0) continue;
          const auto& [likely, logprob] = found.likeliest[static_cast<std::size_t>(i)];
          EXPECT_EQ(likely, id) << row;
          EXPECT_FLOAT_EQ(logprob, static_cast<float>(expected[2].at(row * 21 + 1 + i)));
          ++told;
        }
      }
      EXPECT_GT(told, 10);
    }
}

}  // namespace
}  // namespace sinter::test
