// SPDX-License-Identifier: Apache-2.0
// The engine over decoders with states of fixed size (models/hybrid_onnx.py), on the CPU: every
// request gets the tokens that the model's own graph gives it, whatever else runs.
#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/engine.h>
#include <sinter/error.h>
#include <sinter/session.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/generate/tiny_decoder.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

constexpr int kVocabulary = 96, kNewTokens = 30;

class HybridDecoderTest : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  std::string compile(const std::vector<std::string>& options = {"--serve=block=4,sequences=8"},
                      const std::string& name = "plan") {
    const std::string model =
        fmt::format("{}/models/tiny/{}_decoder.onnx", source_dir(), GetParam());
    std::vector<std::string> words = {"compile", model, "-o", path(name), "--target=cpu"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return path(name);
  }

  struct Sizes {
    int sequences = 8, step_tokens = 64, blocks = 0, kept = 16;
  };
  static std::unique_ptr<engine::PagedExecutor> executor(const std::string& plan, Sizes sizes) {
    engine::PagedExecutorOptions options;
    options.session.threads = 2;
    options.max_sequences = sizes.sequences;
    options.max_step_tokens = sizes.step_tokens;
    options.block_count = sizes.blocks;
    const Plan loaded = Plan::load(plan);
    const auto states = engine::PagedExecutor::sizes_of(loaded).states;
    EXPECT_TRUE(states.has_value());
    options.state_bytes = static_cast<std::uint64_t>(sizes.kept) * states->bytes;
    return std::make_unique<engine::PagedExecutor>(loaded, options);
  }

  /// What the graph of one sequence says: the prompt whole, then token by token.
  std::vector<TokenId> by_the_model(const std::vector<TokenId>& prompt) {
    if (!session_) {
      std::vector<std::string> options = {"--serve=off"};
      if (has_attention()) options.emplace_back("--dim=capacity=64");
      session_.emplace(Plan::load(compile(options, "one")));
    }
    Session& session = *session_;
    session.reset_state();
    std::vector<std::int64_t> ids(prompt.begin(), prompt.end());
    std::vector<TokenId> text;
    std::int64_t position = 0;
    std::map<std::string, std::vector<float>> states;
    while (std::ssize(text) < kNewTokens) {
      session.set_input("input_ids", {1, std::ssize(ids)}, ids);
      if (has_attention()) session.set_input("position", {1}, std::vector<std::int64_t>{position});
      for (const BindingInfo& input : session.plan().inputs()) {
        if (!input.name.starts_with("past_conv") && !input.name.starts_with("past_state")) continue;
        std::vector<std::int64_t> shape;
        std::int64_t count = 1;
        for (const DimInfo& dim : input.shape) shape.push_back(dim.max), count *= dim.max;
        auto& state = states[input.name];
        state.resize(static_cast<std::size_t>(count));
        session.set_input(input.name, shape, state);
      }
      session.run();
      for (auto& [name, state] : states) {
        const auto view = session.output("present" + name.substr(4)).as<float>();
        state.assign(view.begin(), view.end());
      }
      const auto logits = session.output("logits").as<float>();
      const auto best = std::max_element(logits.begin(), logits.end());
      text.push_back(static_cast<TokenId>(best - logits.begin()));
      position += std::ssize(ids);
      ids = {text.back()};
    }
    return text;
  }

  bool has_attention() const { return std::string(GetParam()) == "hybrid"; }

  /// Of prompts that share beginnings; the last ones come again.
  static std::vector<GenerationRequest> requests() {
    std::vector<GenerationRequest> all;
    std::mt19937 random(5);
    for (const int length : {1, 2, 3, 7, 8, 13, 21, 30}) {
      GenerationRequest& request = all.emplace_back();
      std::mt19937 shared(1);
      for (int i = 0; i < length; ++i)
        request.prompt.push_back(
            static_cast<TokenId>((i < length * 3 / 4 ? shared : random)() % kVocabulary));
      request.sampling.max_tokens = kNewTokens;
    }
    const auto first = all;
    for (int again = 0; again < 2; ++again)
      for (const GenerationRequest& request : first) all.push_back(request);
    return all;
  }

  void expect_all(const GenerationTexts& texts) {
    const auto all = requests();
    ASSERT_EQ(texts.size(), all.size());
    std::map<std::vector<TokenId>, std::vector<TokenId>> known;
    for (const auto& [id, tokens] : texts) {
      const auto& prompt = all[id.first - 1].prompt;
      if (!known.contains(prompt)) known[prompt] = by_the_model(prompt);
      EXPECT_EQ(tokens, known[prompt]) << "request " << id.first << " of " << prompt.size();
    }
  }

 private:
  std::optional<Session> session_;
};

TEST_P(HybridDecoderTest, TogetherEqualsAlone) {
  EngineStats stats;
  expect_all(texts_of(executor(compile(), {}), {.prefix_cache = false}, requests(), &stats));
  EXPECT_EQ(stats.prefix_hit_tokens, 0U);
  EXPECT_EQ(stats.kept_states, 0);
}

TEST_P(HybridDecoderTest, ChunksAndPreemptionChangeNothing) {
  EngineStats stats;
  EngineOptions options;
  options.max_step_tokens = 9;
  expect_all(texts_of(executor(compile(), {.blocks = 16}), options, requests(), &stats));
  EXPECT_GT(stats.preemptions, 0U);
}

TEST_P(HybridDecoderTest, PrefixesAreComputedOnce) {
  const std::string plan = compile();
  EngineStats one, few;
  expect_all(texts_of(executor(plan, {.sequences = 1}), {}, requests(), &one));
  EXPECT_GT(one.prefix_hit_tokens, 100U);
  EXPECT_GT(one.kept_states, 0);
  EXPECT_EQ(one.used_state_slots, 0);
  // Snapshots are evicted, or there is no room for any.
  expect_all(texts_of(executor(plan, {.sequences = 2, .kept = 2}), {}, requests(), &few));
  EXPECT_LE(few.kept_states, 2);
  EXPECT_LT(few.prefix_hit_tokens, one.prefix_hit_tokens);
}

TEST_P(HybridDecoderTest, RejectedGuessesRollStatesBack) {
  EngineStats stats;
  EngineOptions options;
  options.draft_tokens = 3;
  options.draft_match_least = 1;
  const std::string plan = compile({"--serve=block=4,sequences=8,few-tokens=4"});
  expect_all(texts_of(executor(plan, {.sequences = 3}), options, requests(), &stats));
  EXPECT_GT(stats.draft_tokens, stats.accepted_draft_tokens);
  EXPECT_GT(stats.accepted_draft_tokens, 0U);
}

TEST_P(HybridDecoderTest, SamplesShareThePrompt) {
  GenerationRequest request;
  request.prompt = {5, 9, 33, 2, 71};
  request.sampling.max_tokens = kNewTokens;
  request.sampling.samples = 4;
  const auto alone = by_the_model(request.prompt);
  const GenerationTexts texts = texts_of(executor(compile(), {}), {}, {request, request});
  ASSERT_EQ(texts.size(), 8U);
  for (const auto& [id, tokens] : texts) EXPECT_EQ(tokens, alone) << id.second;
}

TEST_P(HybridDecoderTest, DraftModelsHaveNoStates) {
  const Plan plan = Plan::load(compile());
  engine::PagedExecutorOptions paged;
  paged.max_sequences = 4;
  EngineOptions options;
  options.draft_tokens = 2;
  try {
    engine::make_drafting_executor(plan, plan, paged);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the draft model has states of fixed size"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HybridDecoderTest, testing::Values("hybrid", "mamba"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace sinter::tests
