// SPDX-License-Identifier: Apache-2.0
// A plan of one sequence as an executor of the engine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/engine/sampler.h"
#include "tools/generate/decoder.h"

namespace sinter::tools {

/// Runs sequences one after the other: a block is the whole cache of a session, and there are as
/// many as sequences. Right, and no faster than one sequence at a time: for plans that are not
/// paged. Draws on the host.
class DecoderExecutor : public engine::Executor {
 public:
  /// `options.context` is the length of each cache where the plan leaves it open. Throws as Decoder
  /// does, and Error(kUsage) if several sequences are asked of a plan that cannot seek
  /// (Decoder::seeks).
  DecoderExecutor(const Plan& plan, const DecoderOptions& options, const SessionOptions& session,
                  int sequences);

  const engine::ExecutorLimits& limits() const override { return limits_; }
  void start(const engine::StepPlan& plan) override;
  engine::StepResult finish() override;
  void recover() override;

  /// Of the first sequence. Not while the engine has requests.
  Decoder& decoder() { return *runs_.front().decoder; }

 private:
  struct Run {
    std::unique_ptr<Decoder> decoder;
    std::vector<std::int64_t> held;  // tokens that its caches have
    std::uint64_t times_given = 0;   // Decoder::times_given, then
  };
  /// Runs `ids` at `first`; what the caches have of a text that begins anew is not run again.
  static void run(Run& run, std::int64_t first, std::span<const std::int64_t> ids);

  std::vector<Run> runs_;                        // by block
  std::map<int, engine::SlotSampler> samplers_;  // by slot
  engine::ExecutorLimits limits_;
  std::optional<int> device_;  // of a plan for GPUs
  engine::StepResult result_;
};

}  // namespace sinter::tools
