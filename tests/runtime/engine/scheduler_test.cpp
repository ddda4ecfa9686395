// SPDX-License-Identifier: Apache-2.0
// What a step is made of, case by case; simulation_test.cpp tries everything at once.
#include "runtime/engine/scheduler.h"

#include <gmock/gmock.h>

#include "tests/runtime/engine/fake_executor.h"

namespace sinter::testing {
namespace {

using engine::ExecutorLimits;
using engine::Scheduler;
using engine::StepPlan;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kWords = 16;
constexpr auto kMillisecond = std::chrono::milliseconds(1);

ExecutorLimits limits_of(int blocks = 64) {
  ExecutorLimits limits;
  limits.vocabulary = kWords;
  limits.max_positions = 64;
  limits.block_size = 4;
  limits.block_count = blocks;
  limits.max_sequences = 4;
  limits.max_step_tokens = 16;
  limits.max_drafts = 4;
  limits.steps_in_flight = 2;
  return limits;
}

GenerationRequest request_of(int prompt, std::int64_t tokens, int first = 0) {
  GenerationRequest request;
  for (int i = 0; i < prompt; ++i) request.prompt.push_back((first + i * 7) % kWords);
  request.sampling.max_tokens = tokens;
  return request;
}

/// A scheduler with its executor; each step takes a millisecond.
struct Serving {
  explicit Serving(ExecutorLimits with = limits_of(), EngineOptions options = {})
      : limits(with), scheduler(limits, options), executor(limits) {}

  RequestId add(GenerationRequest request) {
    scheduler.check(request);
    scheduler.submit(++last, std::move(request), now);
    return last;
  }
  StepPlan step() {
    const StepPlan plan = scheduler.plan(now);
    if (!plan.empty()) {
      const auto result = executor.run(plan);
      now += kMillisecond;
      scheduler.complete(plan, result, now);
    }
    for (auto& output : scheduler.take_outputs()) {
      if (output.finish != FinishReason::kNone) ended.push_back(output.request);
      outputs.push_back(std::move(output));
    }
    scheduler.check_invariants();
    return plan;
  }
  /// Counts of the tokens of each sequence in a step.
  static std::vector<int> counts(const StepPlan& plan) {
    std::vector<int> counts;
    for (const auto& step : plan.sequences) counts.push_back(step.tokens);
    return counts;
  }
  std::string refusal(const GenerationRequest& request) const {
    try {
      scheduler.check(request);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  ExecutorLimits limits;
  Scheduler scheduler;
  FakeExecutor executor;
  EngineTime now{};
  RequestId last = 0;
  std::vector<RequestId> ended;
  std::vector<GenerationOutput> outputs;
};

TEST(Scheduler, PromptsAreRunInChunksBehindTokens) {
  Serving serving;
  serving.add(request_of(3, 8));
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(3));
  serving.add(request_of(40, 4, 1));
  // The budget of 16 less the token that is decoded.
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(1, 15));
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(1, 15));
  const StepPlan last = serving.step();
  EXPECT_THAT(Serving::counts(last), ElementsAre(1, 10));
  EXPECT_EQ(last.samples.size(), 2U);
  EXPECT_EQ(last.samples[1].row, 10);
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(1, 1));
}

TEST(Scheduler, PromptsShareWhatIsLeftOfTheBudgetInOrder) {
  Serving serving;
  serving.add(request_of(10, 4));
  serving.add(request_of(10, 4, 1));
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(10, 6));
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(1, 4));
}

TEST(Scheduler, StepsArePaddedToTheLadder) {
  ExecutorLimits limits = limits_of();
  limits.token_sizes = {1, 4, 16};
  limits.sequence_sizes = {2, 4};
  Serving serving(limits);
  serving.add(request_of(5, 4));
  const StepPlan first = serving.step();
  EXPECT_EQ(first.padded_tokens, 16);
  EXPECT_EQ(first.padded_sequences, 2);
  EXPECT_EQ(serving.step().padded_tokens, 1);
}

TEST(Scheduler, AnUrgentRequestGoesInFrontForABoundedTime) {
  ExecutorLimits limits = limits_of();
  limits.max_sequences = 1;
  EngineOptions options;
  options.priority_step = 10 * kMillisecond;
  Serving serving(limits, options);
  serving.add(request_of(2, 3));
  serving.step();
  auto urgent = request_of(2, 3, 1);
  urgent.priority = 1;
  // Requests of a higher priority come without end; the first one waits for those of 10 ms.
  int others = 0;
  while (std::ranges::find(serving.ended, RequestId{1}) == serving.ended.end()) {
    if (serving.scheduler.waiting_requests() == 0) serving.add(urgent), ++others;
    serving.step();
    ASSERT_LT(others, 20);
  }
  EXPECT_GE(others, 3);
  EXPECT_GT(serving.scheduler.stats().preemptions, 0U);
}

TEST(Scheduler, OfOnePriorityNobodyIsOvertaken) {
  // The second does not fit beside the first; the third would.
  Serving serving(limits_of(10));
  serving.add(request_of(16, 9));
  serving.step();
  serving.add(request_of(32, 2, 1));
  serving.add(request_of(2, 1, 2));
  for (int i = 0; i < 40; ++i) serving.step();
  EXPECT_THAT(serving.ended, ElementsAre(1, 2, 3));
}

TEST(Scheduler, WithoutBlocksTheLastComerWaitsAndGoesOnAsBefore) {
  Serving serving(limits_of(8));
  const auto first = request_of(8, 16), second = request_of(8, 16, 1);
  serving.add(first);
  serving.add(second);
  for (int i = 0; i < 60; ++i) serving.step();
  EXPECT_GT(serving.scheduler.stats().preemptions, 0U);
  EXPECT_THAT(serving.ended, ElementsAre(1, 2));
  for (const auto& [id, request] :
       {std::pair(RequestId{1}, first), std::pair(RequestId{2}, second)}) {
    std::vector<TokenId> tokens;
    for (const auto& output : serving.outputs)
      if (output.request == id)
        tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    EXPECT_EQ(tokens, expected_text(request, 0, kWords, false).tokens);
  }
}

TEST(Scheduler, EqualPrefixesAreComputedOnce) {
  Serving serving;
  serving.add(request_of(15, 2));
  while (serving.scheduler.has_requests()) serving.step();
  serving.add(request_of(15, 2));
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(3));  // three blocks of 4 are there
  const EngineStats stats = serving.scheduler.stats();
  EXPECT_EQ(stats.prefix_hit_tokens, 12U);
  EXPECT_EQ(stats.prefix_tokens, 30U);
  EXPECT_EQ(stats.prompt_tokens, 18U);
}

TEST(Scheduler, SamplesShareThePromptAndCopyWhatTheyWrite) {
  Serving serving;
  auto request = request_of(6, 3);
  request.sampling.samples = 3;
  request.sampling.temperature = 1;
  serving.add(request);
  const StepPlan prompt = serving.step();
  EXPECT_THAT(Serving::counts(prompt), ElementsAre(6));
  EXPECT_EQ(prompt.samples.size(), 3U);
  EXPECT_EQ(prompt.starts.size(), 3U);
  EXPECT_EQ(serving.scheduler.stats().used_blocks, 2);
  const StepPlan next = serving.step();
  EXPECT_THAT(Serving::counts(next), ElementsAre(1, 1, 1));
  EXPECT_EQ(next.copies.size(), 2U);  // the last one keeps the block
  EXPECT_EQ(serving.scheduler.stats().used_blocks, 4);
}

TEST(Scheduler, BlocksAreLeftForThoseThatWillWantThem) {
  // Two blocks each, both taken at once: the third is admitted beside them, a longer one is not.
  Serving serving(limits_of(7));
  serving.add(request_of(5, 4));
  serving.add(request_of(5, 4, 1));
  serving.step();
  serving.add(request_of(5, 4, 2));
  EXPECT_THAT(Serving::counts(serving.step()), ElementsAre(1, 1, 5));
  Serving longer(limits_of(7));
  longer.add(request_of(5, 5));
  longer.add(request_of(5, 5, 1));
  longer.step();
  longer.add(request_of(5, 5, 2));
  EXPECT_THAT(Serving::counts(longer.step()), ElementsAre(1, 1));
}

TEST(Scheduler, AStepIsPlannedWhileOneIsInFlight) {
  Serving serving;
  serving.add(request_of(3, 3));
  const StepPlan first = serving.scheduler.plan(serving.now);
  const StepPlan second = serving.scheduler.plan(serving.now);
  EXPECT_THAT(second.tokens, ElementsAre(engine::kLastDrawn));
  EXPECT_THAT(second.positions, ElementsAre(3));
  serving.scheduler.complete(first, serving.executor.run(first), serving.now);
  const StepPlan third = serving.scheduler.plan(serving.now);
  EXPECT_THAT(third.positions, ElementsAre(4));
  // Its last token is drawn by a step in flight.
  EXPECT_TRUE(serving.scheduler.plan(serving.now).empty());
  serving.scheduler.complete(second, serving.executor.run(second), serving.now);
  serving.scheduler.complete(third, serving.executor.run(third), serving.now);
  EXPECT_FALSE(serving.scheduler.has_requests());
  EXPECT_EQ(serving.scheduler.stats().used_blocks, 0);
}

TEST(Scheduler, DraftsAreCheckedInOneStep) {
  EngineOptions options;
  options.draft_tokens = 3;
  options.draft_match_least = 1;
  Serving serving(limits_of(), options);
  const auto request = request_of(16, 24);  // each word once, so it comes again
  serving.add(request);
  int steps = 0;
  while (serving.scheduler.has_requests()) serving.step(), ++steps;
  const EngineStats stats = serving.scheduler.stats();
  EXPECT_GT(stats.draft_tokens, stats.accepted_draft_tokens);
  EXPECT_GT(stats.accepted_draft_tokens, 0U);
  EXPECT_EQ(steps, 24 - static_cast<int>(stats.accepted_draft_tokens));
  std::vector<TokenId> tokens;
  for (const auto& output : serving.outputs)
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
  EXPECT_EQ(tokens, expected_text(request, 0, kWords, false).tokens);
}

TEST(Scheduler, ADeadlineEndsARequestWhereverItIs) {
  Serving serving;
  auto request = request_of(3, 30);
  request.deadline = serving.now + 5 * kMillisecond;
  serving.add(request);
  while (serving.scheduler.has_requests()) serving.step();
  EXPECT_EQ(serving.outputs.back().finish, FinishReason::kDeadline);
  EXPECT_EQ(serving.outputs.size(), 6U);
}

TEST(Scheduler, WhatNeverFitsIsRefused) {
  EngineOptions options;
  const Serving serving(limits_of(8), options);
  EXPECT_EQ(serving.refusal(request_of(20, 13)), "none");
  EXPECT_THAT(
      serving.refusal(request_of(20, 14)),
      HasSubstr("20 tokens and 14 behind it do not fit the 32 positions of the whole cache"));
  EXPECT_THAT(serving.refusal(request_of(0, 4)), HasSubstr("prompt has no tokens"));
  auto request = request_of(2, 4);
  request.prompt[1] = kWords;
  EXPECT_THAT(serving.refusal(request), HasSubstr("token 16 of the prompt is not in"));
  request = request_of(2, 4);
  request.sampling.samples = 5;
  EXPECT_THAT(serving.refusal(request), HasSubstr("5 samples are more than the 4"));
  request = request_of(2, 4);
  request.sampling.stop_strings = {"x"};
  EXPECT_THAT(serving.refusal(request), HasSubstr("token_bytes"));
  request = request_of(2, 4);
  request.priority = 5000;
  EXPECT_THAT(serving.refusal(request), HasSubstr("priority 5000"));
}

TEST(Scheduler, OptionsThatContradictTheExecutorAreRefused) {
  const auto refusal = [](const auto& change) -> std::string {
    ExecutorLimits limits = limits_of();
    EngineOptions options;
    change(limits, options);
    try {
      Scheduler(limits, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal([](auto&, auto& options) { options.max_step_tokens = 17; }),
              HasSubstr("17 is more than the 16"));
  EXPECT_THAT(refusal([](auto&, auto& options) { options.max_step_tokens = 4; }),
              HasSubstr("must exceed the number of sequences"));
  EXPECT_THAT(refusal([](auto&, auto& options) { options.draft_tokens = 5; }),
              HasSubstr("at most 4 drafts"));
  EXPECT_THAT(refusal([](auto& limits, auto&) {
                limits.token_sizes = {1, 8};
              }),
              HasSubstr("sizes of tokens must be positive"));
  EXPECT_THAT(refusal([](auto&, auto& options) { options.max_waiting = 0; }),
              HasSubstr("max_waiting is 0"));
}

TEST(Durations, FallIntoBuckets) {
  DurationHistogram histogram;
  histogram.add(std::chrono::microseconds(100));
  histogram.add(std::chrono::microseconds(101));
  histogram.add(std::chrono::hours(1000));
  EXPECT_EQ(histogram.counts[0], 1U);
  EXPECT_EQ(histogram.counts[1], 1U);
  EXPECT_EQ(histogram.counts[DurationHistogram::kBuckets - 1], 1U);
  EXPECT_EQ(histogram.count, 3U);
  EXPECT_DOUBLE_EQ(DurationHistogram::upper_seconds(10), 0.1024);
}

TEST(Scheduler, TokensOfExpertsAddUp) {
  Serving serving;
  serving.add(request_of(5, 3));
  const StepPlan first = serving.scheduler.plan(serving.now);
  auto result = serving.executor.run(first);
  result.expert_tokens = {{3, 0, 7}, {10, 0, 0}};
  serving.scheduler.complete(first, result, serving.now);
  const StepPlan second = serving.scheduler.plan(serving.now);
  result = serving.executor.run(second);
  result.expert_tokens = {{0, 1, 1}, {0, 0, 2}};
  serving.scheduler.complete(second, result, serving.now);
  EXPECT_THAT(serving.scheduler.stats().expert_tokens,
              ElementsAre(ElementsAre(3, 1, 8), ElementsAre(10, 0, 2)));
}

}  // namespace
}  // namespace sinter::testing
