// SPDX-License-Identifier: Apache-2.0
// Speculative decoding with a draft model (Leviathan et al. 2023, arXiv:2211.17192): a small model
// guesses what a large one checks in one step.
#pragma once

#include <cstdint>
#include <memory>

#include <sinter/engine.h>

#include "runtime/engine/executors/paged_executor.h"

namespace sinter::engine {

/// Two models over caches of the same blocks. The draft model runs all that the target runs, so
/// that its caches hold the same positions, and guesses the tokens that a plan says kDrafted for,
/// one after the other, each the most likely one. A guess is certain of itself, so it holds with
/// its own probability under the target, and texts are those without it (SlotSampler::sample).
class DraftingExecutor : public Executor {
 public:
  /// Throws Error(kUsage) if the two do not fit each other: other tokens, blocks or lengths.
  DraftingExecutor(std::unique_ptr<Executor> target, std::unique_ptr<Executor> draft,
                   std::uint64_t cache_bytes = 0);

  const ExecutorLimits& limits() const override { return limits_; }
  void start(const StepPlan& plan) override;
  StepResult finish() override { return target_->finish(); }
  void recover() override;

  std::uint64_t cache_bytes() const { return cache_bytes_; }  // of both, if they say so

 private:
  /// What the target runs of it, but for drafts; samples of those sequences that get some.
  StepPlan plan_known(const StepPlan& plan) const;
  /// The next draft token of each sequence that has more than `drafted`.
  StepPlan plan_next(const StepPlan& plan, int drafted) const;
  StepResult run(StepPlan plan);

  std::unique_ptr<Executor> target_, draft_;
  ExecutorLimits limits_;
  std::uint64_t cache_bytes_ = 0;
  std::shared_ptr<const SamplingParameters> most_likely_;
};

/// Of two plans of `compile --serve`. `options.cache_bytes` are those of both.
std::unique_ptr<DraftingExecutor> make_drafting_executor(const Plan& plan, const Plan& draft,
                                                         PagedExecutorOptions options);

/// What runs the steps of an engine that is made of a plan.
struct ExecutorOfPlan {
  std::unique_ptr<Executor> executor;
  std::uint64_t cache_bytes = 0;
};
/// Of a plan of `compile --serve`, with a draft model unless `draft` is null. Of `options` those
/// that say how much it may hold.
ExecutorOfPlan make_executor(const Plan& plan, const Plan* draft, const EngineOptions& options,
                             const SessionOptions& session);

/// Draft tokens of a step; `asked` is 0 where nobody says how many: 4 with a draft model, else
/// none.
int draft_tokens_of(int asked, bool has_draft_model);

}  // namespace sinter::engine
