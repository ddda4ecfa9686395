// SPDX-License-Identifier: Apache-2.0
// A decoder plan as an executor of the engine.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/engine/sampler.h"
#include "tools/generate/decoder.h"

namespace sinter::tools {

/// Runs sequences one after the other: a block is the whole cache of a session, and there are as
/// many as sequences. Right, and no faster than one sequence at a time: for plans that take one
/// position for all tokens. Draws on the host.
class DecoderExecutor : public engine::Executor {
 public:
  /// `options.context` is the length of each cache where the plan leaves it open. Throws as Decoder
  /// does, and Error(kUsage) for plans whose caches grow, or that choose tokens themselves.
  DecoderExecutor(const Plan& plan, const DecoderOptions& options, const SessionOptions& session,
                  int sequences);

  const engine::ExecutorLimits& limits() const override { return limits_; }
  void start(const engine::StepPlan& plan) override;
  engine::StepResult finish() override;
  void recover() override;

 private:
  std::vector<std::unique_ptr<Decoder>> decoders_;  // by block
  std::map<int, engine::SlotSampler> samplers_;     // by slot
  engine::ExecutorLimits limits_;
  std::optional<int> device_;  // of a plan for GPUs
  engine::StepResult result_;
};

}  // namespace sinter::tools
