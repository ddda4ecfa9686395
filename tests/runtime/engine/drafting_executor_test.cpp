// SPDX-License-Identifier: Apache-2.0
// A draft model changes no text, and what it reads has always been written. Its caches and those of
// the model are fakes, which say so.
#include "runtime/engine/executors/drafting_executor.h"

#include <map>
#include <mutex>
#include <random>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/runtime/engine/fake_executor.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kDraftVocabulary = 40;

engine::ExecutorLimits drafting_limits(int blocks) {
  engine::ExecutorLimits limits;
  limits.vocabulary = kDraftVocabulary;
  limits.max_positions = 64;
  limits.block_size = 4;
  limits.block_count = blocks;
  limits.max_sequences = 6;
  limits.max_step_tokens = 24;
  limits.max_drafts = 4;
  limits.token_sizes = {1, 2, 4, 8, 16, 24};
  limits.sequence_sizes = {1, 2, 4, 6};
  return limits;
}

std::unique_ptr<engine::Executor> two_fakes(int blocks) {
  return std::make_unique<engine::DraftingExecutor>(
      std::make_unique<FakeExecutor>(drafting_limits(blocks)),
      std::make_unique<FakeExecutor>(drafting_limits(blocks)));
}

TEST(DraftingExecutor, TextsAreThoseOfTheModelAlone) {
  std::mt19937 random(5);
  const auto pick = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  EngineStats total;
  for (int round = 0; round < 30; ++round) {
    EngineOptions options;
    options.draft_tokens = pick(1, 4);
    options.draft_sequences = pick(1, 6);
    options.prefix_cache = round % 3 != 0;
    std::vector<GenerationRequest> requests;
    for (int i = 0; i < 20; ++i) {
      GenerationRequest& request = requests.emplace_back();
      for (int t = pick(1, 20); t > 0; --t) request.prompt.push_back(pick(1, 5));
      request.sampling.max_tokens = pick(1, 30);
      request.sampling.temperature = i % 2 == 0 ? 0 : 0.7;
      request.sampling.seed = random();
      request.sampling.samples = i % 5 == 0 ? 3 : 1;
      request.priority = pick(0, 2);
    }
    std::map<std::pair<RequestId, int>, std::vector<TokenId>> texts;
    std::mutex mutex;
    Engine engine(two_fakes(round % 2 == 0 ? 16 : 90), options);
    for (const GenerationRequest& request : requests)
      engine.submit(request, [&](const GenerationOutput& output) {
        EXPECT_EQ(output.error, "");
        const std::scoped_lock lock(mutex);
        auto& text = texts[{output.request, output.sample}];
        text.insert(text.end(), output.tokens.begin(), output.tokens.end());
      });
    engine.drain();
    for (const auto& [id, tokens] : texts)
      EXPECT_EQ(tokens,
                expected_text(requests[id.first - 1], id.second, kDraftVocabulary, false).tokens)
          << round << " " << id.first;
    const EngineStats stats = engine.stats();
    total.draft_tokens += stats.draft_tokens;
    total.accepted_draft_tokens += stats.accepted_draft_tokens;
    total.preemptions += stats.preemptions;
    total.prefix_hit_tokens += stats.prefix_hit_tokens;
    EXPECT_EQ(stats.used_blocks, 0);
  }
  EXPECT_GT(total.preemptions, 0U);
  EXPECT_GT(total.prefix_hit_tokens, 0U);
  EXPECT_GT(total.accepted_draft_tokens, 1000U);
  EXPECT_GT(total.draft_tokens, total.accepted_draft_tokens);  // some are drawn otherwise
}

TEST(DraftingExecutor, AGreedyTextOfTheSameModelTakesAStepForSeveralTokens) {
  EngineOptions options;
  options.draft_tokens = 4;
  Engine engine(two_fakes(90), options);
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.sampling.max_tokens = 31;
  engine.submit(request, [](const GenerationOutput&) {});
  engine.drain();
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.accepted_draft_tokens, stats.draft_tokens);
  EXPECT_EQ(stats.steps, 7U);  // the prompt, and 30 tokens by fives
}

TEST(DraftingExecutor, ModelsThatDoNotFitAreRefused) {
  const auto refusal = [](const auto& change) -> std::string {
    engine::ExecutorLimits other = drafting_limits(20);
    change(other);
    try {
      const engine::DraftingExecutor both(std::make_unique<FakeExecutor>(drafting_limits(20)),
                                          std::make_unique<FakeExecutor>(other));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "they were taken";
  };
  EXPECT_EQ(refusal([](auto& limits) { limits.block_count = 30; }), "they were taken");
  EXPECT_THAT(refusal([](auto& limits) { limits.vocabulary = 41; }), HasSubstr("41 tokens"));
  EXPECT_THAT(refusal([](auto& limits) { limits.block_size = 8; }), HasSubstr("--serve=block=N"));
  EXPECT_THAT(refusal([](auto& limits) { limits.block_count = 19; }), HasSubstr("19 blocks"));
  EXPECT_THAT(refusal([](auto& limits) { limits.max_positions = 32; }), HasSubstr("32 positions"));
}

}  // namespace
}  // namespace sinter::testing
