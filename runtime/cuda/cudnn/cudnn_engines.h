// SPDX-License-Identifier: Apache-2.0
// cuDNN engines for a convolution: the candidates, and an engine prepared to run.
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

/// An engine by cuDNN's number, and its knobs as (type, value).
struct EngineChoice {
  std::int64_t engine = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;

  bool operator==(const EngineChoice&) const = default;
  /// "engine 41 (2=4, 13=1)"
  std::string text() const;
  AlgorithmBlob blob() const;
  /// Nullopt if the blob describes no engine.
  static std::optional<EngineChoice> from(const AlgorithmBlob& blob);
};

/// An engine prepared for a convolution. Immutable except where noted.
class ConvPlan {
 public:
  /// Throws Error(kUnsupported) if the engine rejects the convolution, or its arithmetic is not
  /// allowed: see ConvLaunch.
  ConvPlan(const CudnnTarget& target, const ConvProblem& problem, const EngineChoice& choice);

  cudnnBackendDescriptor_t handle() const { return plan_.handle(); }
  const ConvGraph& graph() const { return graph_; }
  const EngineChoice& choice() const { return choice_; }
  std::uint64_t workspace_bytes() const { return workspace_bytes_; }

  /// True at the first call: loading its kernels during graph capture is not allowed.
  bool is_first_use() const { return !used_.exchange(true); }

 private:
  ConvGraph graph_;
  EngineChoice choice_;
  CudnnDescriptor engine_, config_, plan_;
  std::uint64_t workspace_bytes_ = 0;
  mutable std::atomic<bool> used_ = false;
};

/// The library's candidates, best first, without duplicates: heuristics of modes A, B and fallback,
/// then, if few remain, every engine with default knobs. Omits engines whose arithmetic is not
/// allowed; `why` gets a line for each reason.
std::vector<EngineChoice> conv_candidates(const CudnnTarget& target, const ConvProblem& problem,
                                          std::vector<std::string>& why);

}  // namespace sinter::runtime
