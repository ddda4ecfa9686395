// SPDX-License-Identifier: Apache-2.0
// The engine's threads: many that ask, one that schedules, one that computes.
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <sinter/engine.h>

#include "tests/runtime/engine/fake_executor.h"

namespace sinter::testing {
namespace {

using engine::ExecutorLimits;
using ::testing::HasSubstr;

constexpr int kModelTokens = 16;

ExecutorLimits engine_limits() {
  ExecutorLimits limits;
  limits.vocabulary = kModelTokens;
  limits.max_positions = 64;
  limits.block_size = 4;
  limits.block_count = 40;
  limits.max_sequences = 6;
  limits.max_step_tokens = 24;
  limits.max_drafts = 3;
  limits.steps_in_flight = 2;
  return limits;
}

GenerationRequest short_request(int seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  GenerationRequest request;
  for (std::uint64_t i = 1 + random() % 20; i > 0; --i)
    request.prompt.push_back(static_cast<TokenId>(random() % kModelTokens));
  request.sampling.max_tokens = static_cast<std::int64_t>(1 + random() % 20);
  request.sampling.samples = random() % 4 == 0 ? 3 : 1;
  request.sampling.temperature = random() % 2 == 0 ? 0 : 0.8;
  request.sampling.seed = random();
  if (random() % 3 == 0) request.sampling.stop_strings = {"ab"};
  if (random() % 3 == 0)
    request.sampling.constraint = Constraint{Constraint::Kind::kRegex, "(ab|ba|c+|d){2,12}e", {}};
  return request;
}

/// What came of requests; called on the engine's thread, read on others.
class Answers {
 public:
  Engine::Callback listener() {
    return [this](const GenerationOutput& output) { add(output); };
  }
  void add(const GenerationOutput& output) {
    const std::scoped_lock lock(mutex_);
    GenerationOutput& text = texts_[{output.request, output.sample}];
    EXPECT_EQ(text.finish, FinishReason::kNone);
    text.tokens.insert(text.tokens.end(), output.tokens.begin(), output.tokens.end());
    text.text += output.text;
    text.finish = output.finish;
    text.error = output.error;
    changes_.notify_all();
  }
  GenerationOutput of(RequestId id, int sample = 0) {
    const std::scoped_lock lock(mutex_);
    return texts_[{id, sample}];
  }
  GenerationOutput wait_for(RequestId id, std::size_t tokens) {
    std::unique_lock lock(mutex_);
    GenerationOutput& text = texts_[{id, 0}];
    changes_.wait(
        lock, [&] { return text.tokens.size() >= tokens || text.finish != FinishReason::kNone; });
    return text;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changes_;
  std::map<std::pair<RequestId, int>, GenerationOutput> texts_;
};

void run_many(EngineOptions options, int state_slots = 0) {
  options.token_bytes = fake_bytes;
  Answers answers;
  std::map<RequestId, int> asked;
  std::mutex mutex;
  ExecutorLimits limits = engine_limits();
  limits.state_slots = state_slots;
  Engine engine(std::make_unique<ThreadedExecutor>(limits), options);
  constexpr int kThreads = 4, kRequests = 100;
  std::atomic<int> cancelled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRequests; ++i) {
        const int seed = t * kRequests + i;
        const RequestId id = engine.submit(short_request(seed), answers.listener());
        {
          const std::scoped_lock lock(mutex);
          asked[id] = seed;
        }
        if (seed % 7 == 0) engine.cancel(id), ++cancelled;
        if (seed % 16 == 0) engine.stats();
      }
    });
  for (auto& thread : threads) thread.join();
  engine.drain();
  EXPECT_EQ(std::ssize(asked), kThreads * kRequests);
  for (const auto& [id, seed] : asked) {
    const GenerationRequest request = short_request(seed);
    for (int sample = 0; sample < request.sampling.samples; ++sample) {
      const GenerationOutput text = answers.of(id, sample);
      ASSERT_NE(text.finish, FinishReason::kNone);
      if (text.finish == FinishReason::kCancelled) {
        EXPECT_EQ(seed % 7, 0);
        continue;
      }
      const ExpectedText expected =
          expected_text(request, sample, kModelTokens, true, fake_grammar(request, kModelTokens));
      EXPECT_EQ(text.tokens, expected.tokens);
      EXPECT_EQ(text.text, expected.text);
      EXPECT_EQ(text.finish, expected.finish);
    }
  }
}

TEST(Engine, ManyThreadsAskAndEachGetsItsOwn) { run_many({}); }

/// States of fixed size, with few slots beside the sequences' own for snapshots and guesses.
TEST(Engine, SoItIsWithStates) {
  EngineOptions options;
  options.draft_tokens = 3;
  options.draft_match_least = 1;
  run_many({}, 10);
  run_many(options, 14);
}

TEST(Engine, SoItIsWithDrafts) {
  EngineOptions options;
  options.draft_tokens = 3;
  options.draft_match_least = 1;
  run_many(options);
}

/// Joins the letters of tokens by blanks, and holds the last one back.
class Joined : public TokenText {
 public:
  std::string add(TokenId token) override {
    std::string text =
        std::exchange(held_, (is_first_ ? "" : " ") + std::string(fake_bytes(token)));
    is_first_ = false;
    return text;
  }
  std::string finish() override { return std::exchange(held_, {}); }

 private:
  std::string held_;
  bool is_first_ = true;
};

TEST(Engine, TextsAreWhatIsMadeOfTheirTokens) {
  Answers answers;
  EngineOptions options;
  options.token_bytes = fake_bytes;
  options.token_text = [] { return std::make_unique<Joined>(); };
  Engine engine(std::make_unique<ThreadedExecutor>(engine_limits()), options);
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.sampling.max_tokens = 4;
  request.sampling.constraint = Constraint{Constraint::Kind::kChoice, "", {"abcd"}};
  const auto text_of = [&](std::vector<std::string> stops) {
    request.sampling.stop_strings = std::move(stops);
    const RequestId id = engine.submit(request, answers.listener());
    return answers.wait_for(id, 1000);
  };
  const GenerationOutput output = text_of({});
  const std::string whole = output.text;
  std::string expected;
  for (const TokenId token : output.tokens)
    expected += (expected.empty() ? "" : " ") + std::string(fake_bytes(token));
  EXPECT_EQ(whole, expected);
  ASSERT_THAT(whole, HasSubstr(" "));
  // What comes behind the last token may have the stop string.
  EXPECT_EQ(text_of({whole.substr(whole.size() - 2)}).text, whole.substr(0, whole.size() - 2));
  EXPECT_EQ(text_of({" "}).text, whole.substr(0, whole.find(' ')));
  engine.drain();
}

TEST(Engine, AConstraintHoldsForEachSample) {
  Answers answers;
  EngineOptions options;
  options.token_bytes = fake_bytes;
  Engine engine(std::make_unique<ThreadedExecutor>(engine_limits()), options);
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.sampling.samples = 4;
  request.sampling.temperature = 1;
  request.sampling.max_tokens = 20;
  request.sampling.constraint = Constraint{Constraint::Kind::kChoice, "", {"abcd", "bade", "gf"}};
  const RequestId id = engine.submit(request, answers.listener());
  engine.drain();
  std::set<std::string> texts;
  for (int sample = 0; sample < 4; ++sample) {
    EXPECT_EQ(answers.of(id, sample).finish, FinishReason::kStop);
    texts.insert(answers.of(id, sample).text);
  }
  EXPECT_THAT(texts, ::testing::IsSubsetOf({"abcd", "bade", "gf"}));
}

TEST(Engine, ConstraintsThatCannotBeMetAreRefused) {
  EngineOptions options;
  options.token_bytes = fake_bytes;
  Engine engine(std::make_unique<FakeExecutor>(engine_limits()), options);
  GenerationRequest request;
  request.prompt = {1};
  const auto refusal = [&](const Engine& of, Constraint::Kind kind, const std::string& text) {
    request.sampling.constraint = Constraint{kind, text, {}};
    try {
      const_cast<Engine&>(of).submit(request, nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  using Kind = Constraint::Kind;
  EXPECT_THAT(refusal(engine, Kind::kRegex, "(a"), HasSubstr("regular expression"));
  EXPECT_THAT(refusal(engine, Kind::kRegex, "z"), HasSubstr("can begin a text"));
  EXPECT_THAT(refusal(engine, static_cast<Kind>(9), "z"), HasSubstr("kind 9"));
  EXPECT_THROW(engine.prepare(request.sampling), Error);
  const Engine silent(std::make_unique<FakeExecutor>(engine_limits()));
  EXPECT_THAT(refusal(silent, Kind::kRegex, "a"), HasSubstr("token_bytes"));
  request.sampling.constraint.reset();
  engine.prepare(request.sampling);
  engine.submit(request, nullptr);  // goes on as before
  engine.drain();
}

/// No token has what must come: the text ends with that, and others go on.
TEST(Engine, ATextThatIsStuckEndsAlone) {
  Answers answers;
  EngineOptions options;
  options.token_bytes = fake_bytes;
  Engine engine(std::make_unique<FakeExecutor>(engine_limits()), options);
  GenerationRequest request = short_request(1);
  request.sampling = {};
  request.sampling.max_tokens = 8;
  const RequestId other = engine.submit(request, answers.listener());
  request.sampling.constraint = Constraint{Constraint::Kind::kRegex, "abz", {}};
  const RequestId id = engine.submit(request, answers.listener());
  engine.drain();
  EXPECT_EQ(answers.of(id).finish, FinishReason::kError);
  EXPECT_EQ(answers.of(id).text, "ab");
  EXPECT_THAT(answers.of(id).error, HasSubstr("no token"));
  EXPECT_EQ(answers.of(other).finish, FinishReason::kLength);
}

TEST(Engine, StatsSayWhatHappened) {
  Answers answers;
  Engine engine(std::make_unique<FakeExecutor>(engine_limits()));
  GenerationRequest request = short_request(1);
  request.sampling = {};
  request.sampling.max_tokens = 5;
  EngineStats stats;
  const RequestId id = engine.submit(request, [&](const GenerationOutput& output) {
    answers.add(output);
    // Who hears of the end sees what it left.
    if (output.finish != FinishReason::kNone) stats = engine.stats();
  });
  engine.drain();
  EXPECT_EQ(answers.of(id).tokens, expected_text(request, 0, kModelTokens, false).tokens);
  EXPECT_EQ(answers.of(id).text, "");
  EXPECT_EQ(stats.finished, 1U);
  EXPECT_EQ(stats.requests, 1U);
  EXPECT_EQ(stats.generated_tokens, 5U);
  EXPECT_EQ(stats.prompt_tokens, request.prompt.size());
  EXPECT_EQ(stats.first_token.count, 1U);
  EXPECT_EQ(stats.between_tokens.count, 4U);
  EXPECT_EQ(stats.queue.count, 1U);
  EXPECT_EQ(stats.used_blocks, 0);
  EXPECT_EQ(stats.finished_texts[static_cast<std::size_t>(FinishReason::kLength)], 1U);
}

TEST(Engine, ARunningRequestIsCancelled) {
  Answers answers;
  Engine engine(std::make_unique<ThreadedExecutor>(engine_limits()));
  GenerationRequest request;
  request.prompt = {1, 2};
  request.sampling.max_tokens = 60;
  std::atomic<RequestId> own = 0;
  // From inside the callback, so that it is certain to run.
  const RequestId id = engine.submit(request, [&](const GenerationOutput& output) {
    answers.add(output);
    if (output.finish == FinishReason::kNone) engine.cancel(output.request);
  });
  own = id;
  engine.drain();
  EXPECT_EQ(answers.of(id).finish, FinishReason::kCancelled);
  EXPECT_LT(answers.of(id).tokens.size(), 10U);
}

TEST(Engine, AFailingCallbackEndsItsRequestAlone) {
  Answers answers;
  Engine engine(std::make_unique<ThreadedExecutor>(engine_limits()));
  GenerationRequest request;
  request.prompt = {1, 2};
  request.sampling.max_tokens = 40;
  std::atomic<int> calls = 0;
  engine.submit(request, [&](const GenerationOutput&) {
    ++calls;
    throw std::runtime_error("no");
  });
  const RequestId other = engine.submit(request, answers.listener());
  engine.drain();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(answers.of(other).finish, FinishReason::kLength);
}

TEST(Engine, AFullQueueRefuses) {
  EngineOptions options;
  options.max_waiting = 2;
  std::mutex gate;
  std::unique_lock lock(gate);  // holds the engine in its first callback
  std::atomic<bool> is_held = false;
  Engine engine(std::make_unique<FakeExecutor>(engine_limits()), options);
  GenerationRequest request;
  request.prompt = {1, 2};
  engine.submit(request, [&](const GenerationOutput&) {
    is_held = true;
    const std::scoped_lock wait(gate);
  });
  while (!is_held) std::this_thread::yield();
  int taken = 0;
  try {
    for (; taken < 10; ++taken) engine.submit(request, nullptr);
    ADD_FAILURE() << "all were taken";
  } catch (const QueueFullError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("max_waiting"));
  }
  EXPECT_GE(taken, 1);
  EXPECT_LE(taken, 2);
  lock.unlock();
  engine.drain();
}

/// A step that fails ends its own requests; those that wait, and later ones, get their texts.
TEST(Engine, AFailingStepEndsItsRequestsAlone) {
  for (const std::uint64_t failing : {1U, 2U, 5U, 9U}) {
    Answers answers;
    EngineOptions options;
    options.token_bytes = fake_bytes;
    ExecutorLimits limits = engine_limits();
    limits.max_sequences = 3;  // so that some wait
    Engine engine(std::make_unique<ThreadedExecutor>(limits, failing), options);
    std::map<RequestId, GenerationRequest> asked;
    const auto submit = [&](int seed) {
      GenerationRequest request = short_request(seed);
      request.sampling.samples = seed % 3 == 0 ? 2 : 1;
      asked.emplace(engine.submit(request, answers.listener()), request);
    };
    for (int seed = 1; seed <= 12; ++seed) submit(seed);
    while (engine.stats().failed_steps == 0) std::this_thread::yield();
    for (int seed = 13; seed <= 20; ++seed) submit(seed);
    engine.drain();
    EXPECT_FALSE(engine.failure());
    EXPECT_EQ(engine.stats().failed_steps, 1U);
    EXPECT_EQ(engine.stats().used_blocks, 0);
    int failed = 0;
    for (const auto& [id, request] : asked)
      for (int sample = 0; sample < request.sampling.samples; ++sample) {
        const GenerationOutput text = answers.of(id, sample);
        const ExpectedText expected =
            expected_text(request, sample, kModelTokens, true, fake_grammar(request, kModelTokens));
        if (text.finish == FinishReason::kError && text.error == "the device is lost") {
          ++failed;
          continue;
        }
        EXPECT_EQ(text.tokens, expected.tokens);
        EXPECT_EQ(text.text, expected.text);
        EXPECT_EQ(text.finish, expected.finish);
      }
    EXPECT_GE(failed, 1);
    EXPECT_LE(failed, 6);
  }
}

/// NaN among the logits behind token 13.
class NanExecutor : public FakeExecutor {
 public:
  using FakeExecutor::FakeExecutor;

 protected:
  std::vector<float> logits_of(std::span<const TokenId> tokens) const override {
    std::vector<float> logits = FakeExecutor::logits_of(tokens);
    if (tokens.back() == 13) logits[3] = std::numeric_limits<float>::quiet_NaN();
    return logits;
  }
};

TEST(Engine, ATextWithoutLogitsEndsAlone) {
  Answers answers;
  Engine engine(std::make_unique<NanExecutor>(engine_limits()));
  GenerationRequest request;
  request.prompt = {1, 2};
  request.sampling.max_tokens = 20;
  request.sampling.logit_bias = {{13, -1e9F}};
  const RequestId first = engine.submit(request, answers.listener());
  GenerationRequest bad = request;
  bad.prompt = {1, 13};
  bad.sampling.samples = 2;
  const RequestId id = engine.submit(bad, answers.listener());
  const RequestId second = engine.submit(request, answers.listener());
  engine.drain();
  for (int sample = 0; sample < 2; ++sample) {
    EXPECT_EQ(answers.of(id, sample).finish, FinishReason::kError);
    EXPECT_THAT(answers.of(id, sample).error, HasSubstr("NaN"));
  }
  const ExpectedText expected = expected_text(request, 0, kModelTokens, false);
  for (const RequestId other : {first, second}) {
    EXPECT_EQ(answers.of(other).tokens, expected.tokens);
    EXPECT_EQ(answers.of(other).finish, FinishReason::kLength);
  }
  EXPECT_EQ(engine.stats().failed_steps, 0U);
}

/// Without a limit a text goes on until the context or the cache is full.
TEST(Engine, ATextWithoutALimitEndsWhereItsRoomDoes) {
  for (const int blocks : {40, 5}) {
    Answers answers;
    ExecutorLimits limits = engine_limits();
    limits.block_count = blocks;  // 64 positions, or 20
    const std::int64_t most = std::min(64, 4 * blocks);
    Engine engine(std::make_unique<ThreadedExecutor>(limits));
    GenerationRequest request;
    request.prompt = {1, 2, 3};
    request.sampling.max_tokens = SamplingParameters::kNoLimit;
    std::vector<RequestId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(engine.submit(request, answers.listener()));
    GenerationRequest long_prompt = request;
    long_prompt.prompt.assign(static_cast<std::size_t>(most) + 1, 1);
    try {
      engine.submit(long_prompt, nullptr);
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("shorten the prompt"));
    }
    engine.drain();
    GenerationRequest limited = request;
    limited.sampling.max_tokens = most - 3;
    const ExpectedText expected = expected_text(limited, 0, kModelTokens, false);
    for (const RequestId id : ids) {
      EXPECT_EQ(answers.of(id).tokens, expected.tokens);
      EXPECT_EQ(answers.of(id).finish, FinishReason::kLength);
    }
  }
}

TEST(Engine, AFailingExecutorEndsAllWithItsWords) {
  Answers answers;
  Engine engine(std::make_unique<ThreadedExecutor>(engine_limits(), 4, true));
  GenerationRequest request;
  request.prompt = {1, 2};
  request.sampling.max_tokens = 60;
  const RequestId first = engine.submit(request, answers.listener());
  const GenerationOutput text = answers.wait_for(first, 60);
  EXPECT_EQ(text.finish, FinishReason::kError);
  EXPECT_THAT(text.error, HasSubstr("the device is lost"));
  while (!engine.failure()) std::this_thread::yield();
  try {
    engine.submit(request, answers.listener());
    ADD_FAILURE() << "it was taken";
  } catch (const EngineStoppedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_THAT(error.what(), HasSubstr("has stopped: the device is lost for good"));
  }
  engine.drain();
}

TEST(Engine, DestructionCancelsWhatIsLeft) {
  Answers answers;
  RequestId id = 0;
  {
    Engine engine(std::make_unique<ThreadedExecutor>(engine_limits()));
    GenerationRequest request;
    request.prompt = {1};
    request.sampling.max_tokens = 64;
    request.sampling.samples = 6;
    id = engine.submit(request, answers.listener());
  }
  for (int sample = 0; sample < 6; ++sample)
    EXPECT_NE(answers.of(id, sample).finish, FinishReason::kNone);
}

TEST(Engine, NothingIsTakenWhileItDrains) {
  Engine engine(std::make_unique<FakeExecutor>(engine_limits()));
  engine.drain();
  GenerationRequest request;
  request.prompt = {1};
  EXPECT_THROW(engine.submit(request, nullptr), Error);
  request.prompt = {};
  EXPECT_THROW(engine.submit(request, nullptr), Error);
  EXPECT_THROW(Engine(nullptr), Error);
}

}  // namespace
}  // namespace sinter::testing
