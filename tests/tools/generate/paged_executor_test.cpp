// SPDX-License-Identifier: Apache-2.0
// The engine over a plan of many sequences for the CPU: every request gets the tokens that it gets
// alone.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/engine.h>
#include <sinter/error.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/generate/tiny_decoder.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class PagedExecutorTest : public CliTest {
 protected:
  std::string compile(const std::vector<std::string>& options = {"--serve=block=4"}) {
    std::vector<std::string> words = {"compile", kTinyDecoder, "-o", path("plan"), "--target=cpu"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return path("plan");
  }
  /// `positions` in all caches; 0: enough.
  static std::unique_ptr<engine::PagedExecutor> executor(const std::string& plan, int sequences,
                                                         int blocks = 0) {
    engine::PagedExecutorOptions options;
    options.session.threads = 1;
    options.max_sequences = sequences;
    options.max_step_tokens = 24;
    constexpr std::uint64_t kPosition = 2 * 2 * 2 * 8 * 4;  // layers, keys and values, heads, width
    options.cache_bytes = static_cast<std::uint64_t>(blocks) * 4 * kPosition;
    return std::make_unique<engine::PagedExecutor>(Plan::load(plan), options);
  }
};

std::vector<GenerationRequest> many(int copies) {
  std::vector<GenerationRequest> requests;
  for (int copy = 0; copy < copies; ++copy)
    for (const json& golden : greedy()) {
      GenerationRequest& request = requests.emplace_back();
      request.prompt = golden["prompt"].get<std::vector<TokenId>>();
      request.sampling.max_tokens = std::ssize(golden["tokens"]);
      request.sampling.samples = copy == 3 ? 2 : 1;
      request.priority = copy;
    }
  return requests;
}

void expect_goldens(const GenerationTexts& texts) {
  for (const auto& [id, tokens] : texts)
    EXPECT_EQ(json(tokens), greedy()[(id.first - 1) % 3]["tokens"]) << id.first;
}

TEST_F(PagedExecutorTest, GreedyTokensOfManyAreThoseOfNumpy) {
  const std::string plan = compile();
  const GenerationTexts texts = texts_of(executor(plan, 7), {}, many(6));
  EXPECT_EQ(texts.size(), 21U);
  expect_goldens(texts);
}

// Steps of up to three tokens are an entry point of their own.
TEST_F(PagedExecutorTest, StepsOfFewTokensSayTheSame) {
  for (const char* more : {"--cache-precision=model", "--cache-precision=int8"}) {
    const std::string plan = compile({"--serve=block=4,few-tokens=3", more});
    ASSERT_EQ(Plan::load(plan).entries().size(), 2U);
    EXPECT_EQ(Plan::load(plan).entries()[0].name, "few");
    EngineStats stats;
    EngineOptions options;
    options.draft_tokens = 2;
    options.draft_match_least = 1;
    const GenerationTexts texts = texts_of(executor(plan, 5), options, many(3), &stats);
    EXPECT_EQ(texts, texts_of(executor(compile({"--serve=block=4", more}), 5), {}, many(3)));
    EXPECT_GT(stats.draft_tokens, 0U);
  }
  EXPECT_THAT(sinter({"compile", kTinyDecoder, "-o", path("plan"), "--target=cpu",
                      "--serve=step-tokens=256,few-tokens=256"})
                  .err,
              HasSubstr("no steps of more than the few tokens"));
}

// What a step in front has drawn is told to the next one, which was planned without it.
TEST_F(PagedExecutorTest, AStepIsStartedWhileAnotherRuns) {
  const auto model = executor(compile(), 1);
  ASSERT_EQ(model->limits().steps_in_flight, 2);
  const auto prompt = greedy()[0]["prompt"].get<std::vector<TokenId>>();
  const auto wanted = greedy()[0]["tokens"].get<std::vector<TokenId>>();
  ASSERT_GE(wanted.size(), 3U);
  const auto step = [&](std::vector<TokenId> tokens, int position) {
    engine::StepPlan plan;
    const int count = static_cast<int>(tokens.size()), last = position + count;
    for (; position < last; ++position) plan.positions.push_back(position);
    plan.tokens = std::move(tokens);
    for (int block = 0; block * 4 < last; ++block) plan.block_tables.push_back(block);
    plan.sequences = {{1, 1, 0, 0, count, last - count, 0, (last + 3) / 4}};
    plan.samples = {{1, 1, 0, count - 1, 0}};
    return plan;
  };
  engine::StepPlan first = step(prompt, 0);
  engine::SlotStart& slot = first.starts.emplace_back();
  slot.sampling = std::make_shared<const SamplingParameters>();
  std::vector<TokenId> drawn;
  const auto finish = [&] { drawn.push_back(model->finish().samples.at(0).tokens.at(0)); };
  model->start(first);
  int position = static_cast<int>(prompt.size());
  for (int ahead = 0; ahead < 2; ++ahead) {
    model->start(step({engine::kLastDrawn}, position++));
    finish();
  }
  finish();
  EXPECT_EQ(drawn, std::vector(wanted.begin(), wanted.begin() + 3));
}

// Whatever a step fails of, later ones run as if it had not been.
TEST_F(PagedExecutorTest, AStepThatFailsIsForgotten) {
  const auto model = executor(compile(), 2);
  const auto step = [&](std::vector<TokenId> tokens, bool draws) {
    engine::StepPlan plan;
    const int count = static_cast<int>(tokens.size());
    for (int i = 0; i < count; ++i) plan.positions.push_back(i);
    plan.tokens = std::move(tokens);
    for (int block = 0; block * 4 < count; ++block) plan.block_tables.push_back(block);
    plan.sequences = {{1, 1, 0, 0, count, 0, 0, (count + 3) / 4}};
    if (draws) plan.samples = {{1, 1, 0, count - 1, 0}};
    engine::SlotStart& slot = plan.starts.emplace_back();
    slot.sampling = std::make_shared<const SamplingParameters>();
    return plan;
  };
  const auto prompt = greedy()[0]["prompt"].get<std::vector<TokenId>>();
  const auto wanted = greedy()[0]["tokens"].get<std::vector<TokenId>>();
  const TokenId none = 1 << 20;  // no row of the vocabulary
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(
        {
          model->start(step({1, none, 2}, true));
          model->finish();
        },
        Error);
    model->recover();
    model->start(step(prompt, true));
    EXPECT_EQ(model->finish().samples.at(0).tokens.at(0), wanted[0]);
    // The one that fails was started while another ran, which has its result.
    model->start(step(prompt, true));
    EXPECT_THROW(
        {
          model->start(step({none}, true));
          EXPECT_EQ(model->finish().samples.at(0).tokens.at(0), wanted[0]);
          model->finish();
        },
        Error);
    model->recover();
  }
  model->start(step(prompt, true));
  EXPECT_EQ(model->finish().samples.at(0).tokens.at(0), wanted[0]);
}

TEST_F(PagedExecutorTest, PreemptionAndChunksChangeNothing) {
  EngineStats stats;
  EngineOptions options;
  options.max_step_tokens = 6;
  expect_goldens(texts_of(executor(compile(), 5, 16), options, many(6), &stats));
  EXPECT_GT(stats.preemptions, 0U);
}

TEST_F(PagedExecutorTest, DraftsChangeNothing) {
  EngineStats stats;
  EngineOptions options;
  options.draft_tokens = 3;
  options.draft_match_least = 1;
  expect_goldens(texts_of(executor(compile(), 4), options, many(3), &stats));
  EXPECT_GT(stats.draft_tokens, 0U);
}

/// Of the same model with weights of few bits, which guesses most of the tokens.
TEST_F(PagedExecutorTest, ADraftModelChangesNothing) {
  const Plan draft = Plan::load(compile({"--serve=block=4", "--weights=int4"}));
  const Plan plan = Plan::load(compile());
  EngineStats stats;
  EngineOptions options;
  options.draft_tokens = 3;
  options.draft_sequences = 5;
  engine::PagedExecutorOptions paged;
  paged.session.threads = 1;
  paged.max_sequences = 5;
  expect_goldens(
      texts_of(engine::make_drafting_executor(plan, draft, paged), options, many(3), &stats));
  EXPECT_GT(stats.accepted_draft_tokens, 0U);
  EXPECT_THROW(Engine(plan, draft, EngineOptions()), Error);  // no draft tokens
  Engine(plan, draft, options);
}

TEST_F(PagedExecutorTest, PrefixesAreComputedOnce) {
  EngineStats stats;
  expect_goldens(texts_of(executor(compile(), 1), {}, many(3), &stats));
  EXPECT_GT(stats.prefix_hit_tokens, 0U);
}

/// Of a prompt of one token, or one whose others are cached: fewer sequences than rows of logits.
TEST_F(PagedExecutorTest, SamplesOfOneTokenHaveARowEach) {
  const std::string plan = compile();
  GenerationRequest request;
  request.prompt = {5};
  request.sampling.max_tokens = 8;
  const auto alone = texts_of(executor(plan, 7), {}, {request}).at({1, 0});
  request.sampling.samples = 6;
  const GenerationTexts texts = texts_of(executor(plan, 7), {}, {request});
  ASSERT_EQ(texts.size(), 6U);
  for (const auto& [id, tokens] : texts) EXPECT_EQ(tokens, alone) << id.second;
}

TEST_F(PagedExecutorTest, CachesOf8BitsAreTheSameInABatch) {
  const std::string plan = compile({"--serve=block=8", "--cache-precision=int8"});
  std::vector<GenerationRequest> requests = many(3);
  const auto all = [&](int sequences) {
    engine::PagedExecutorOptions options;
    options.session.threads = 1;
    options.max_sequences = sequences;
    return texts_of(std::make_unique<engine::PagedExecutor>(Plan::load(plan), options), {},
                    requests);
  };
  EXPECT_EQ(all(1), all(6));
}

TEST_F(PagedExecutorTest, DrawsDoNotDependOnTheBatch) {
  const std::string plan = compile();
  std::vector<GenerationRequest> requests = many(2);
  std::mt19937 random(3);
  for (GenerationRequest& request : requests) {
    request.sampling.temperature = 3;
    request.sampling.top_k = 40;
    request.sampling.seed = random();
    request.sampling.logprobs = 2;
  }
  EXPECT_EQ(texts_of(executor(plan, 1), {}, requests), texts_of(executor(plan, 6), {}, requests));
}

/// Each parameter, alone and with others.
std::vector<GenerationRequest> drawing() {
  std::vector<GenerationRequest> requests = many(5);
  std::mt19937 random(11);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SamplingParameters& sampling = requests[i].sampling;
    sampling.temperature = i % 5 == 0 ? 0 : 2.5;
    sampling.seed = random();
    if (i % 3 == 1) sampling.top_k = 12;
    if (i % 4 == 2) sampling.top_p = 0.8;
    if (i % 5 == 3) sampling.min_p = 0.1;
    if (i % 2 == 1) sampling.repetition_penalty = 1.4;
    if (i % 3 == 2) sampling.presence_penalty = 1.5;
    if (i % 4 == 3) sampling.frequency_penalty = 0.7;
    if (i % 5 == 2) sampling.stop_tokens = {5, 9, 21}, sampling.min_tokens = 4;
    if (i % 6 == 4) sampling.logit_bias = {{9, 4.0F}, {3, -100.0F}, {40, 2.0F}};
    if (i % 7 == 5) sampling.constraint = Constraint{Constraint::Kind::kRegex, "[a-m]{4,9}", {}};
  }
  return requests;
}

/// Logits that the caller changes are drawn from on the host, and are told the text so far.
TEST_F(PagedExecutorTest, LogitsMayBeAdjusted) {
  const std::string plan = compile();
  const auto texts = [&](bool adjusts) {
    std::vector<GenerationRequest> requests = many(1);
    for (GenerationRequest& request : requests) {
      SamplingParameters& sampling = request.sampling;
      sampling.samples = 1;
      for (const TokenId banned : {7, 12, 30})
        if (!adjusts) sampling.logit_bias.emplace_back(banned, -std::numeric_limits<float>::max());
      if (adjusts)
        sampling.adjust = [known = std::size_t{0}](std::span<const TokenId> text,
                                                   std::span<float> logits) mutable {
          EXPECT_EQ(text.size(), known++);
          for (const TokenId banned : {7, 12, 30})
            logits[static_cast<std::size_t>(banned)] = -std::numeric_limits<float>::max();
        };
    }
    return texts_of(executor(plan, 3), {}, requests);
  };
  EXPECT_EQ(texts(true), texts(false));
}

/// A step may run when the text before it ends: what `adjust` refers to may be gone by then.
TEST_F(PagedExecutorTest, LogitsAreNotAdjustedBehindTheTextsEnd) {
  const std::string plan = compile();
  for (const bool throws : {false, true}) {
    Engine engine(executor(plan, 3));
    std::array<bool, 3> ended = {};  // of the engine's thread, as both functions are
    std::size_t late = 0, index = 0;
    for (GenerationRequest& request : many(1)) {
      const std::size_t i = index++;
      // Nothing says in advance that the text ends there.
      request.sampling.stop_tokens = {greedy()[i]["tokens"][1 + i].get<TokenId>()};
      request.sampling.adjust = [&, i](std::span<const TokenId>, std::span<float>) {
        if (ended.at(i)) ++late;
      };
      engine.submit(std::move(request), [&, i](const GenerationOutput& output) {
        if (output.finish == FinishReason::kNone && !throws) return;
        ended.at(i) = true;
        if (throws) throw std::runtime_error("no longer wanted");
      });
    }
    engine.drain();
    EXPECT_EQ(late, 0U);
  }
}

/// Steps that are prepared for one text are of its sizes.
TEST_F(PagedExecutorTest, StepsOfOneTextAreNotPadded) {
  engine::PagedExecutorOptions options;
  options.session.threads = 1;
  options.max_sequences = 1;
  options.max_step_tokens = 24;
  options.max_positions = 30;
  options.ahead = {1, 11};
  auto model = std::make_unique<engine::PagedExecutor>(Plan::load(compile()), options);
  EXPECT_EQ(model->limits().max_positions, 30);
  EXPECT_EQ(model->limits().block_count, 8);
  EXPECT_THAT(model->limits().token_sizes, testing::ElementsAre(1, 2, 4, 8, 11, 16, 24));
  EXPECT_EQ(model->shapes_of_one(11).at("input_ids"), std::vector<std::int64_t>{11});
  EXPECT_EQ(Plan::load(path("plan")).entries()[0].name, "one");
  std::vector<GenerationRequest> requests = many(1);
  const GenerationTexts texts = texts_of(std::move(model), {}, {requests[0]});
  EXPECT_EQ(json(texts.at({1, 0})), greedy()[0]["tokens"]);
}

TEST_F(PagedExecutorTest, DrawsOfThePlanAreThoseOfTheHost) {
  const std::string plan = compile();
  std::vector<std::string> bytes;
  for (int token = 0; token < 256; ++token)
    bytes.emplace_back(1, static_cast<char>('a' + token % 26));
  EngineOptions options;
  options.token_bytes = [&](TokenId token) -> std::string_view {
    return bytes.at(static_cast<std::size_t>(token));
  };
  std::vector<GenerationRequest> requests = drawing();
  const GenerationTexts by_plan = texts_of(executor(plan, 7), options, requests);
  // Preempted and drafted, too.
  EXPECT_EQ(by_plan, texts_of(executor(plan, 5, 16), options, requests));
  EngineOptions with_drafts = options;
  with_drafts.draft_tokens = 3;
  with_drafts.draft_match_least = 1;
  EXPECT_EQ(by_plan, texts_of(executor(plan, 4), with_drafts, requests));
  for (GenerationRequest& request : requests) request.sampling.logprobs = 21;
  EXPECT_EQ(by_plan, texts_of(executor(plan, 7), options, requests));
  // More biases than a slot has room for.
  for (GenerationRequest& request : requests) request.sampling.logprobs.reset();
  for (int i = 0; i < 2 * engine::SamplingTables::kBiases; ++i)
    requests[1].sampling.logit_bias.emplace_back(i % 40, 0.0F);
  EXPECT_EQ(by_plan, texts_of(executor(plan, 7), options, requests));
}

using Logprobs = std::map<RequestId, std::vector<TokenLogprobs>>;

Logprobs logprobs_of(std::unique_ptr<engine::Executor> executor, const EngineOptions& options,
                     std::vector<GenerationRequest> requests, const std::vector<int>& wanted) {
  Logprobs all;
  std::mutex mutex;
  Engine engine(std::move(executor), options);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (const int count = wanted[i % wanted.size()]; count >= 0)
      requests[i].sampling.logprobs = count;
    requests[i].sampling.samples = 1;
    engine.submit(requests[i], [&](const GenerationOutput& output) {
      EXPECT_TRUE(output.error.empty()) << output.error;
      const std::scoped_lock lock(mutex);
      auto& told = all[output.request];
      told.insert(told.end(), output.logprobs.begin(), output.logprobs.end());
    });
  }
  engine.drain();
  return all;
}

// The plan tells up to 20; of more the host draws and counts.
TEST_F(PagedExecutorTest, LogprobsOfThePlanAreThoseOfTheHost) {
  const std::string plan = compile();
  std::vector<GenerationRequest> requests = drawing();
  for (GenerationRequest& request : requests) request.sampling.constraint.reset();
  EngineOptions with_drafts;
  with_drafts.draft_tokens = 3;
  with_drafts.draft_match_least = 1;
  const Logprobs by_host = logprobs_of(executor(plan, 7), {}, requests, {21});
  const std::vector<int> wanted = {20, 0, -1, 3};
  // The plan's float32 sums and the host's are in other orders: four units in the last place.
  const auto expect_near = [](double found, double host) {
    EXPECT_NEAR(found, host, 4 * FLT_EPSILON * std::max(1.0, std::abs(host)));
  };
  for (const Logprobs& by_plan : {logprobs_of(executor(plan, 7), {}, requests, wanted),
                                  logprobs_of(executor(plan, 5, 16), {}, requests, wanted),
                                  logprobs_of(executor(plan, 4), with_drafts, requests, wanted)}) {
    ASSERT_EQ(by_plan.size(), requests.size());
    for (const auto& [id, all] : by_plan) {
      const auto& expected = by_host.at(id);
      const int count = wanted[(id - 1) % wanted.size()];
      ASSERT_EQ(all.size(), count < 0 ? 0 : expected.size()) << id;
      for (std::size_t i = 0; i < all.size(); ++i) {
        SCOPED_TRACE(fmt::format("text {} token {}", id, i));
        expect_near(all[i].logprob, expected[i].logprob);
        ASSERT_EQ(std::ssize(all[i].likeliest), count);
        for (std::size_t t = 0; t < all[i].likeliest.size(); ++t) {
          EXPECT_EQ(all[i].likeliest[t].first, expected[i].likeliest[t].first);
          expect_near(all[i].likeliest[t].second, expected[i].likeliest[t].second);
        }
      }
    }
  }
}

/// Decoders as ONNX Runtime GenAI's model builder writes them (GroupQueryAttention, MatMulNBits).
TEST_F(PagedExecutorTest, ModelsOfGenAIGiveWhatTheyGiveAlone) {
  const std::string folder = source_dir() + "/tests/conformance/genai/node/";
  std::uint64_t preemptions = 0;  // of one model there are none if its texts come late
  for (const char* name : {"test_llama_fp32_cpu", "test_qwen3_int4_cuda", "test_gemma2_int4_cpu",
                           "test_phi3long_fp32_cpu"}) {
    const std::string model = folder + name + "/model.onnx";
    const auto compile_to = [&](const char* plan, const std::vector<std::string>& options) {
      std::vector<std::string> words = {"compile", model, "-o", path(plan), "--target=cpu"};
      words.insert(words.end(), options.begin(), options.end());
      const auto result = sinter(words);
      ASSERT_EQ(result.code, 0) << result.err;
    };
    compile_to("one", {});
    compile_to("many", {"--serve=block=4"});
    std::vector<GenerationRequest> requests;
    std::mt19937 random(7);
    for (int i = 0; i < 5; ++i) {
      GenerationRequest& request = requests.emplace_back();
      for (int t = 0; t <= i * 2; ++t)
        request.prompt.push_back(static_cast<TokenId>(2 + random() % 60));
      request.sampling.max_tokens = 8;
    }
    engine::PagedExecutorOptions options;
    options.session.threads = 1;
    options.max_sequences = 3;
    options.max_step_tokens = 6;  // prompts in parts
    options.block_count = 6;      // some are preempted
    EngineStats stats;
    const GenerationTexts texts =
        texts_of(std::make_unique<engine::PagedExecutor>(Plan::load(path("many")), options), {},
                 requests, &stats);
    preemptions += stats.preemptions;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::string ids;
      for (const TokenId id : requests[i].prompt)
        ids += (ids.empty() ? "" : ",") + std::to_string(id);
      const auto alone = sinter({"generate", path("one"), "--ids", ids, "--max-tokens", "8",
                                 "--json", "--no-rates", "--no-stop"});
      EXPECT_EQ(json(texts.at({i + 1, 0})), json::parse(alone.out)["tokens"]) << name;
    }
  }
  EXPECT_GT(preemptions, 0U);
}

TEST_F(PagedExecutorTest, OtherPlansAndCachesWithoutRoomAreRefused) {
  const auto refused = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "it was taken";
  };
  const std::string plan = compile({"--serve=off"});
  EXPECT_THAT(refused([&] { executor(plan, 2); }), HasSubstr("--serve"));
  const std::string paged = compile();
  EXPECT_THAT(refused([&] { executor(paged, 2, 1); }), HasSubstr("--cache-memory"));
}

}  // namespace
}  // namespace sinter::tests
