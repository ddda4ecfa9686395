// SPDX-License-Identifier: Apache-2.0
// Draws on the host: against NumPy's goldens, which plans' samplers are tested against too
// (tests/tools/goldens/sampler.json), and against probabilities.
#include "runtime/engine/sampler.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

using engine::SlotSampler;
using engine::SlotStart;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Probabilities 0.5, 0.25, 0.125, 0.125 at temperature 1, not in order.
const std::vector<float> kLogits = {std::log(0.125F), std::log(0.5F), std::log(0.125F),
                                    std::log(0.25F)};
constexpr int kDraws = 20000;

SlotSampler sampler_of(SamplingParameters sampling, std::vector<TokenId> tokens = {}) {
  SlotStart start;
  start.seed = sampling.seed;
  start.sampling = std::make_shared<const SamplingParameters>(std::move(sampling));
  start.tokens = std::move(tokens);
  return SlotSampler(start);
}

std::vector<int> counts(const SamplingParameters& sampling) {
  SlotSampler sampler = sampler_of(sampling);
  std::vector<int> result(kLogits.size());
  for (int i = 0; i < kDraws; ++i) ++result[static_cast<std::size_t>(sampler.draw(kLogits))];
  return result;
}

/// Five standard deviations of a binomial count.
void expect_share(int count, double share) {
  EXPECT_NEAR(count, kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share)));
}

/// Rows that are NaN, drawn on the host or by a plan, are the text's own error: no exception, and
/// no token.
TEST(SlotSampler, RowsOfNanAreTheTextsError) {
  std::vector<float> rows = kLogits;
  rows.insert(rows.end(), kLogits.begin(), kLogits.end());
  rows[6] = std::numeric_limits<float>::quiet_NaN();
  SlotSampler host = sampler_of({});
  const std::vector<TokenId> drafts = {1};
  const engine::SampleResult drawn = host.sample(rows, drafts);
  EXPECT_THAT(drawn.tokens, ElementsAre(1));
  EXPECT_THAT(drawn.error, HasSubstr("NaN"));
  SlotSampler plan = sampler_of({});
  const std::vector<TokenId> of_rows = {1, 4};  // as many as there are tokens
  const engine::SampleResult taken = plan.take(of_rows, drafts, 4);
  EXPECT_THAT(taken.tokens, ElementsAre(1));
  EXPECT_EQ(taken.error, drawn.error);
  // Behind a draft that does not hold nobody looks.
  SlotSampler other = sampler_of({});
  const std::vector<TokenId> wrong = {2};
  EXPECT_EQ(other.take(of_rows, wrong, 4).error, "");
  SlotSampler first = sampler_of({});
  const std::vector<TokenId> none = {4};
  EXPECT_TRUE(first.take(none, {}, 4).tokens.empty());
  EXPECT_GE(first.last(), 0);  // what a step that is planned ahead runs
}

TEST(SlotSampler, DrawsNumpysTokens) {
  std::ifstream file(source_dir() + "/tests/tools/goldens/sampler.json");
  const auto goldens = nlohmann::json::parse(file);
  int drawn = 0;
  for (const auto& golden : goldens["cases"]) {
    std::vector<float> logits;
    if (golden["logits"].empty())  // the script's formula
      for (int i = 0; i < 6000; ++i)
        logits.push_back(static_cast<float>(i * 7919 % 10007 % 200) / 8);
    for (const auto& value : golden["logits"])
      logits.push_back(value.is_string() ? std::stof(value.get<std::string>())
                                         : value.get<float>());
    SamplingParameters sampling;
    sampling.temperature = golden["options"].value("temperature", 0.0);
    sampling.top_k = golden["options"].value("top_k", std::int64_t{0});
    sampling.top_p = golden["options"].value("top_p", 1.0);
    sampling.seed = golden["seed"];
    SlotSampler sampler = sampler_of(sampling);
    for (const auto& token : golden["tokens"]) {
      if (token == -1) {  // a plan's word for NaN
        EXPECT_THROW(sampler.draw(logits), Error);
        continue;
      }
      ASSERT_EQ(sampler.draw(logits), token) << golden["name"] << " " << golden["options"];
      ++drawn;
    }
  }
  EXPECT_GT(drawn, 500);
}

TEST(SlotSampler, GreedyTakesTheFirstOfTheMostLikely) {
  SlotSampler sampler = sampler_of({});
  EXPECT_EQ(sampler.draw(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(sampler.draw(std::vector<float>{-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(sampler.draw(std::vector<float>{0, kInfinity}), 1);
  std::vector<float> many(1000, -1);
  many[777] = many[900] = 0.5F;
  EXPECT_EQ(sampler.draw(many), 777);
}

TEST(SlotSampler, DrawsAsOftenAsLikely) {
  const auto found = counts({.temperature = 1});
  const double expected[] = {0.125, 0.5, 0.125, 0.25};
  for (std::size_t i = 0; i < found.size(); ++i) expect_share(found[i], expected[i]);
}

TEST(SlotSampler, TemperatureIsAPowerOfProbabilities) {
  expect_share(counts({.temperature = 0.5})[1], 16 / 22.0);  // squares: 1, 16, 1, 4 of 22
}

TEST(SlotSampler, TopKAndTopPAndMinPLeaveTheRestOut) {
  const auto two = counts({.temperature = 1, .top_k = 2});
  EXPECT_EQ(two[0] + two[2], 0);
  expect_share(two[1], 2 / 3.0);
  const auto most = counts({.temperature = 1, .top_p = 0.7});
  EXPECT_EQ(most[0] + most[2], 0);
  EXPECT_GT(most[3], 0);
  EXPECT_EQ(counts({.temperature = 1, .top_p = 0.4})[1], kDraws);
  EXPECT_EQ(counts({.temperature = 1, .top_k = 1})[1], kDraws);
  EXPECT_GT(counts({.temperature = 1, .top_k = 100})[0], 0);
  const auto likely = counts({.temperature = 1, .min_p = 0.4});
  EXPECT_EQ(likely[0] + likely[2], 0);
  expect_share(likely[1], 2 / 3.0);
  EXPECT_EQ(counts({.temperature = 1, .min_p = 1})[1], kDraws);
  // Temperature counts first: 0.25 of 0.5 is a quarter of it when squared.
  EXPECT_EQ(counts({.temperature = 0.5, .min_p = 0.4})[3], 0);
}

TEST(SlotSampler, BiasComesBeforeThePenaltyOfRepetitions) {
  SamplingParameters sampling;
  sampling.logit_bias = {{0, 5.0F}};
  EXPECT_EQ(sampler_of(sampling).draw(std::vector<float>{0, 3, -1}), 0);
  sampling.repetition_penalty = 2;
  EXPECT_EQ(sampler_of(sampling, {0}).draw(std::vector<float>{0, 3, -1}), 1);
  EXPECT_EQ(sampler_of(sampling).draw(std::vector<float>{0, 3, -1}), 0);
  // Below 0 it multiplies.
  SamplingParameters penalty;
  penalty.repetition_penalty = 2;
  EXPECT_EQ(sampler_of(penalty, {1}).draw(std::vector<float>{-1.5F, -1}), 0);
  EXPECT_EQ(sampler_of(penalty).draw(std::vector<float>{-1.5F, -1}), 1);
}

TEST(SlotSampler, WhatWasDrawnIsARepetition) {
  SamplingParameters sampling;
  sampling.repetition_penalty = 4;
  SlotSampler sampler = sampler_of(sampling);
  const std::vector<float> logits = {1, 3, 2};
  EXPECT_EQ(sampler.draw(logits), 1);
  EXPECT_EQ(sampler.draw(logits), 2);
  EXPECT_EQ(sampler.draw(logits), 0);
}

TEST(SlotSampler, PenaltiesOfTheTextCountWhatWasDrawn) {
  SamplingParameters presence;
  presence.presence_penalty = 1.5;
  SlotSampler once = sampler_of(presence, {0});  // of the prompt: that does not count
  const std::vector<float> logits = {0, 3, 2};
  for (const TokenId wanted : {1, 2, 1, 1}) EXPECT_EQ(once.draw(logits), wanted);
  SamplingParameters frequency;
  frequency.frequency_penalty = 1;
  SlotSampler each = sampler_of(frequency);
  for (const TokenId wanted : {1, 1, 2, 1, 2, 0}) EXPECT_EQ(each.draw(logits), wanted);
  // Begun again behind a text, as after a preemption; beside a bias.
  SlotStart start;
  frequency.logit_bias = {{1, -1.0F}};
  start.sampling = std::make_shared<const SamplingParameters>(frequency);
  start.text = {1, 2, 2};
  start.draws = 3;
  SlotSampler late(start);
  EXPECT_THAT(late.biased(), ElementsAre(1, 2));
  EXPECT_THAT(late.biases(), ElementsAre(-2, -2));
  EXPECT_TRUE(late.take_bias_change());
  EXPECT_FALSE(late.take_bias_change());
  EXPECT_EQ(late.draw(logits), 1);
  EXPECT_TRUE(late.take_bias_change());
  EXPECT_THAT(late.biases(), ElementsAre(-3, -2));
  EXPECT_FALSE(late.is_known_ahead(1));
}

TEST(SlotSampler, NoStopTokenComesBeforeTheLeastTokens) {
  SamplingParameters sampling;
  sampling.stop_tokens = {1, 2};
  sampling.min_tokens = 2;
  SlotSampler sampler = sampler_of(sampling);
  const std::vector<float> logits = {0, 3, 2};
  for (const TokenId wanted : {0, 0, 1}) EXPECT_EQ(sampler.draw(logits), wanted);
}

TEST(SlotSampler, ATokenMayBeForbidden) {
  SamplingParameters sampling;
  sampling.temperature = 1;
  sampling.logit_bias = {{1, -kInfinity}};
  EXPECT_EQ(counts(sampling)[1], 0);
}

/// Tokens a, b, c and d, of which a text of `pattern` is made.
SlotSampler constrained(SamplingParameters sampling, const std::string& pattern) {
  grammar::Compiler compiler(4, [](TokenId token) {
    return std::string_view("abcd").substr(static_cast<std::size_t>(token), 1);
  });
  sampling.constraint = Constraint{Constraint::Kind::kRegex, pattern, {}};
  SlotStart start;
  start.seed = sampling.seed;
  start.grammar = compiler.compile(*sampling.constraint);
  start.sampling = std::make_shared<const SamplingParameters>(std::move(sampling));
  return SlotSampler(start);
}

TEST(SlotSampler, AConstraintIsOverAllElse) {
  // Greedy, and with a bias and a penalty on the way.
  EXPECT_EQ(constrained({}, "[acd]").draw(kLogits), 3);
  EXPECT_EQ(constrained({}, "[ac]").draw(kLogits), 0) << "the first of the likeliest";
  SamplingParameters sampling;
  sampling.logit_bias = {{1, kInfinity}, {3, -kInfinity}, {2, 1.0F}};
  sampling.repetition_penalty = 1.5;
  EXPECT_EQ(constrained(sampling, "[acd]").draw(kLogits), 2);
  EXPECT_EQ(constrained(sampling, "d").draw(kLogits), 3) << "there is nothing else";
  // What top-k and the others leave is of what is allowed.
  sampling = {};
  sampling.temperature = 1;
  sampling.top_k = 1;
  EXPECT_EQ(constrained(sampling, "[acd]").draw(kLogits), 3);
  sampling.top_k = 0;
  sampling.top_p = 0.4;
  EXPECT_EQ(constrained(sampling, "[acd]").draw(kLogits), 3);
  sampling.top_p = 1;
  sampling.min_p = 0.9;
  EXPECT_EQ(constrained(sampling, "[acd]").draw(kLogits), 3);
  sampling.min_p = 0;
  std::vector<int> counts(4);
  for (int i = 0; i < 4000; ++i) {
    sampling.seed = static_cast<std::uint64_t>(i);
    ++counts[static_cast<std::size_t>(constrained(sampling, "[acd]").draw(kLogits))];
  }
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0], 1000, 150);
  EXPECT_NEAR(counts[3], 2000, 170);
}

TEST(SlotSampler, DraftsHoldAsTheConstraintHasIt) {
  std::vector<float> rows;
  for (int i = 0; i < 4; ++i) rows.insert(rows.end(), kLogits.begin(), kLogits.end());
  SamplingParameters sampling;
  sampling.logprobs = 1;
  SlotSampler sampler = constrained(sampling, "db?c");
  const std::vector<TokenId> drafts = {3, 1, 2};
  const engine::SampleResult drawn = sampler.sample(rows, drafts);
  EXPECT_THAT(drawn.tokens, ElementsAre(3, 1, 2)) << "no row behind the end is drawn from";
  EXPECT_TRUE(drawn.ends);
  EXPECT_EQ(drawn.logprobs[0].likeliest[0].first, 1) << "the model's own";
  SlotSampler other = constrained({}, "dc");
  EXPECT_THAT(other.sample(rows, drafts).tokens, ElementsAre(3, 2));
  SlotSampler stuck = constrained({}, "dz");
  const engine::SampleResult failed = stuck.sample(rows, drafts);
  EXPECT_THAT(failed.tokens, ElementsAre(3));
  EXPECT_THAT(failed.error, HasSubstr("no token"));
}

TEST(SlotSampler, ADrawDependsOnTheSeedAndItsNumberAlone) {
  const auto draws = [](std::uint64_t seed, std::uint64_t first) {
    SlotStart start;
    start.seed = seed;
    start.draws = first;
    start.sampling =
        std::make_shared<const SamplingParameters>(SamplingParameters{.temperature = 1});
    SlotSampler sampler(start);
    std::vector<TokenId> result(50);
    for (TokenId& token : result) token = sampler.draw(kLogits);
    return result;
  };
  EXPECT_EQ(draws(1, 0), draws(1, 0));
  EXPECT_NE(draws(1, 0), draws(2, 0));
  // Begun again behind 20 draws, as after a preemption.
  const auto all = draws(1, 0), late = draws(1, 20);
  EXPECT_TRUE(std::equal(late.begin(), late.begin() + 30, all.begin() + 20));
  EXPECT_NE(sampling::seed_of_sample(1, 1), sampling::seed_of_sample(2, 0));
  EXPECT_EQ(sampling::seed_of_sample(9, 0), 9U);
}

TEST(SlotSampler, LogprobsAreTheModelsOwn) {
  SamplingParameters sampling;
  sampling.logprobs = 2;
  sampling.logit_bias = {{0, 100.0F}};
  const auto result = sampler_of(sampling).sample(kLogits, {});
  ASSERT_THAT(result.tokens, ElementsAre(0));
  ASSERT_EQ(result.logprobs.size(), 1U);
  EXPECT_NEAR(result.logprobs[0].logprob, std::log(0.125), 1e-6);
  ASSERT_EQ(result.logprobs[0].likeliest.size(), 2U);
  EXPECT_EQ(result.logprobs[0].likeliest[0].first, 1);
  EXPECT_NEAR(result.logprobs[0].likeliest[0].second, std::log(0.5), 1e-6);
  EXPECT_EQ(result.logprobs[0].likeliest[1].first, 3);
  sampling.logprobs = 100;
  EXPECT_EQ(sampler_of(sampling).sample(kLogits, {}).logprobs[0].likeliest.size(), 4U);
}

std::string refusal(const SamplingParameters& sampling) {
  try {
    engine::check_sampling(sampling, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "none";
}

TEST(CheckSampling, NonsenseIsRefusedByName) {
  EXPECT_EQ(refusal({}), "none");
  EXPECT_THAT(refusal({.temperature = -1}), HasSubstr("temperature -1"));
  EXPECT_THAT(refusal({.temperature = NAN}), HasSubstr("temperature"));
  EXPECT_THAT(refusal({.temperature = HUGE_VAL}), HasSubstr("temperature"));
  EXPECT_THAT(refusal({.top_k = -1}), HasSubstr("top-k -1"));
  EXPECT_THAT(refusal({.top_p = 0}), HasSubstr("top-p 0 is not in (0, 1]"));
  EXPECT_THAT(refusal({.top_p = 1.5}), HasSubstr("top-p 1.5"));
  EXPECT_THAT(refusal({.min_p = -0.5}), HasSubstr("min-p -0.5"));
  EXPECT_THAT(refusal({.presence_penalty = kInfinity}),
              HasSubstr("presence-penalty inf is not a number"));
  EXPECT_THAT(refusal({.frequency_penalty = NAN}), HasSubstr("frequency-penalty nan"));
  EXPECT_THAT(refusal({.max_tokens = 3, .min_tokens = 4}), HasSubstr("min tokens 4"));
  EXPECT_THAT(refusal({.repetition_penalty = 0}),
              HasSubstr("repetition-penalty 0 is not a number above 0"));
  EXPECT_THAT(refusal({.logit_bias = {{100, 1.0F}}}),
              HasSubstr("token 100 is not in the model's vocabulary"));
  EXPECT_THAT(refusal({.logit_bias = {{1, NAN}}}), HasSubstr("bias of token 1"));
  EXPECT_THAT(refusal({.samples = 0}), HasSubstr("samples is 0"));
  EXPECT_THAT(refusal({.max_tokens = 0}), HasSubstr("max tokens 0"));
  EXPECT_THAT(refusal({.stop_tokens = {-1}}), HasSubstr("stop token -1"));
  EXPECT_THAT(refusal({.stop_strings = {""}}), HasSubstr("stop string is empty"));
  EXPECT_THAT(refusal({.logprobs = -1}), HasSubstr("logprobs is -1"));
}

/// Steps that were planned before run on: with a valid token, but without what the request gave.
TEST(SlotSampler, NothingIsDrawnBehindTheTextsEnd) {
  auto parameters = std::make_shared<SamplingParameters>();
  int calls = 0;
  parameters->adjust = [&](std::span<const TokenId>, std::span<float>) { ++calls; };
  const auto ended = std::make_shared<bool>(false);
  SlotStart start;
  start.sampling = parameters;
  start.ended = ended;
  SlotSampler running(start), unused(start);
  const std::vector<float> logits{0, 1, 3, 2};
  EXPECT_EQ(running.sample(logits, {}).tokens, (std::vector<TokenId>{2}));
  *ended = true;
  EXPECT_TRUE(running.sample(logits, {}).tokens.empty());
  EXPECT_EQ(running.last(), 2);
  EXPECT_TRUE(unused.sample(logits, {}).tokens.empty());
  EXPECT_EQ(unused.last(), 0);
  EXPECT_EQ(calls, 1);
}

TEST(SlotSampler, LogitsThatAreNoneAreAnError) {
  SlotSampler greedy = sampler_of({}), drawing = sampler_of({.temperature = 1});
  for (SlotSampler* sampler : {&greedy, &drawing}) {
    EXPECT_THROW(sampler->draw(std::vector<float>{}), Error);
    EXPECT_THROW(sampler->draw(std::vector<float>{0, NAN}), Error);
    std::vector<float> many(100);
    many[50] = NAN;
    EXPECT_THROW(sampler->draw(many), Error);
  }
}

}  // namespace
}  // namespace sinter::testing
