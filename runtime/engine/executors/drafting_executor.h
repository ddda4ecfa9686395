// SPDX-License-Identifier: Apache-2.0
// Speculative decoding with a draft model (Leviathan et al. 2023, arXiv:2211.17192): a small model
// drafts tokens that a large one verifies in one step.
#pragma once

#include <cstdint>
#include <memory>

#include <sinter/engine.h>

#include "runtime/engine/executors/paged_executor.h"

namespace sinter::engine {

/// Runs a target and a draft model on caches with the same block numbers. The draft model runs
/// every step too, so that its caches hold the same positions. It fills each kDrafted token with
/// its own argmax, one after another. Such a draft is accepted with its probability under the
/// target, so texts equal those without drafts (SlotSampler::sample).
class DraftingExecutor : public Executor {
 public:
  /// Throws Error(kUsage) if the two models' vocabularies, blocks or lengths differ.
  DraftingExecutor(std::unique_ptr<Executor> target, std::unique_ptr<Executor> draft,
                   std::uint64_t cache_bytes = 0);

  const ExecutorLimits& limits() const override { return limits_; }
  void start(const StepPlan& plan) override;
  StepResult finish() override { return target_->finish(); }
  void recover() override;

  std::uint64_t cache_bytes() const { return cache_bytes_; }  // of both models, if known

 private:
  /// The step as the draft model runs it, without drafts; samples only for sequences with drafts.
  StepPlan plan_known(const StepPlan& plan) const;
  /// Plans the next draft token of each sequence with more than `drafted` drafts.
  StepPlan plan_next(const StepPlan& plan, int drafted) const;
  StepResult run(StepPlan plan);

  std::unique_ptr<Executor> target_, draft_;
  ExecutorLimits limits_;
  std::uint64_t cache_bytes_ = 0;
  std::shared_ptr<const SamplingParameters> most_likely_;
};

/// For two plans of `compile --serve`, which share `options.cache_bytes`.
std::unique_ptr<DraftingExecutor> make_drafting_executor(const Plan& plan, const Plan& draft,
                                                         PagedExecutorOptions options);

/// The executor of an engine that is made from a plan.
struct ExecutorOfPlan {
  std::unique_ptr<Executor> executor;
  std::uint64_t cache_bytes = 0;
};
/// For a plan of `compile --serve`, with a draft model unless `draft` is null. Reads only the
/// capacity fields of `options`.
ExecutorOfPlan make_executor(const Plan& plan, const Plan* draft, const EngineOptions& options,
                             const SessionOptions& session);

/// Draft tokens of a step. `asked` 0 selects the default: 4 with a draft model, else none.
int draft_tokens_of(int asked, bool has_draft_model);

}  // namespace sinter::engine
