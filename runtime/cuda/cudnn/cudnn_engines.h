// SPDX-License-Identifier: Apache-2.0
// Engines of cuDNN for a convolution: which are candidates, and one made ready to run.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/cudnn/cudnn_conv_graph.h"
#include "runtime/libraries/tuning_cache.h"

namespace sinter::runtime {

/// An engine by cuDNN's number, and its settings ("knobs") by type and value.
struct EngineChoice {
  std::int64_t engine = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;

  bool operator==(const EngineChoice&) const = default;
  /// "engine 41 (2=4, 13=1)"
  std::string text() const;
  AlgorithmBlob blob() const;
  /// Nothing for a blob that is none of an engine.
  static std::optional<EngineChoice> from(const AlgorithmBlob& blob);
};

/// An engine prepared for a convolution. Immutable except where noted.
class ConvPlan {
 public:
  /// Throws Error(kUnsupported) if the engine does not take the convolution, or does it in a way
  /// that we do not accept: see ConvLaunch.
  ConvPlan(const CudnnTarget& target, const ConvProblem& problem, const EngineChoice& choice);

  cudnnBackendDescriptor_t handle() const { return plan_.handle(); }
  const ConvGraph& graph() const { return graph_; }
  const EngineChoice& choice() const { return choice_; }
  std::uint64_t workspace_bytes() const { return workspace_bytes_; }

  /// True at the first call: its kernels may still have to be loaded, which must not happen while a
  /// graph is captured.
  bool is_first_use() const { return !used_.exchange(true); }

 private:
  ConvGraph graph_;
  EngineChoice choice_;
  CudnnDescriptor engine_, config_, plan_;
  std::uint64_t workspace_bytes_ = 0;
  mutable std::atomic<bool> used_ = false;
};

/// What the library proposes, best first, each once: heuristics of mode A, B and fallback, then, if
/// few are left of those, every engine as it is. Engines that we do not accept are left out; `why`
/// gets a line for each reason.
std::vector<EngineChoice> conv_candidates(const CudnnTarget& target, const ConvProblem& problem,
                                          std::vector<std::string>& why);

}  // namespace sinter::runtime
