// SPDX-License-Identifier: Apache-2.0
// A model that is quick and whose every answer depends on all that it should: what a cache block
// holds, and in which order.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/engine/sampler.h"

namespace sinter::testing {

/// Logits of what follows `tokens`: mostly by the last of them, so that text repeats itself and
/// prompt lookup finds something, and by all others a little.
std::vector<float> fake_logits(std::span<const TokenId> tokens, int vocabulary);

/// The bytes of a token: letters, parts of characters of two bytes, and nothing for token 0.
std::string_view fake_bytes(TokenId token);

/// What a request must give, computed for it alone.
struct ExpectedText {
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason finish;
};
ExpectedText expected_text(const GenerationRequest& request, int sample, int vocabulary,
                           bool has_text,
                           std::shared_ptr<const grammar::Grammar> grammar = nullptr);

/// Of the request's constraint, for tokens with the bytes of fake_bytes(); null if it has none.
std::shared_ptr<const grammar::Grammar> fake_grammar(const GenerationRequest& request,
                                                     int vocabulary);

/// Keeps tokens where a model keeps keys and values. Each row reads all positions before its own
/// through the block table, or, with slots of states, which hold all tokens of a sequence, its
/// state. Throws Error(kInternal) for plans that contradict themselves.
class FakeExecutor : public engine::Executor {
 public:
  explicit FakeExecutor(engine::ExecutorLimits limits);

  const engine::ExecutorLimits& limits() const override { return limits_; }
  void start(const engine::StepPlan& plan) override;
  engine::StepResult finish() override;
  void recover() override { results_.clear(); }

  std::size_t in_flight() const { return results_.size(); }
  engine::StepResult run(const engine::StepPlan& plan);

 protected:
  virtual std::vector<float> logits_of(std::span<const TokenId> tokens) const {
    return fake_logits(tokens, limits_.vocabulary);
  }

 private:
  void check(const engine::StepPlan& plan) const;
  void check_states(const engine::StepPlan& plan) const;
  /// Sequences' tokens so far, by their states; writes what the step stores.
  std::vector<std::vector<TokenId>> run_states(const engine::StepPlan& plan);
  TokenId token_at(const engine::StepPlan& plan, const engine::SequenceStep& step, int i) const;

  engine::ExecutorLimits limits_;
  std::vector<TokenId> cells_;                // [blocks, block size]; -1: nothing was written
  std::vector<std::vector<TokenId>> states_;  // by slot
  std::map<int, engine::SlotSampler> slots_;
  std::deque<engine::StepResult> results_;
};

/// The same on a thread of its own, as a GPU is. Fails in step `failing`, if that is not 0, and
/// then for good if it `is_lost`.
class ThreadedExecutor : public engine::Executor {
 public:
  explicit ThreadedExecutor(engine::ExecutorLimits limits, std::uint64_t failing = 0,
                            bool is_lost = false);
  ~ThreadedExecutor() override;

  const engine::ExecutorLimits& limits() const override { return model_.limits(); }
  void start(const engine::StepPlan& plan) override;
  engine::StepResult finish() override;
  void recover() override;

 private:
  void run();

  FakeExecutor model_;
  std::uint64_t failing_;
  std::mutex mutex_;
  std::condition_variable changes_;
  std::deque<engine::StepPlan> plans_;
  std::deque<std::optional<engine::StepResult>> results_;  // none: it failed
  bool is_lost_, is_stopping_ = false, is_busy_ = false, has_failed_ = false;
  std::thread thread_;
};

}  // namespace sinter::testing
