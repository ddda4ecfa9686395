// SPDX-License-Identifier: Apache-2.0
// Launches loops and branches of a launch list on a stream, or captures them into its graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graphs/memory.h"
#include "graphs/module.h"
#include "graphs/stream.h"
#include "runtime/cuda/launch_list.h"
#include "runtime/executor.h"

namespace sinter::runtime {

/// The control mechanism of each loop and branch in `steps`. A loop with a known number of
/// iterations is unrolled into the graph, unless that takes too many launches.
std::vector<ControlMechanism> choose_mechanisms(const plan::fb::PlanT& meta,
                                                const BoundShape& shape, bool conditional_nodes);

/// Hooks around the steps of a run; a loop or branch with its bodies counts as one step.
class AroundSteps {
 public:
  virtual ~AroundSteps() = default;
  /// Called before step number `step` of the run. True: the step waits for more than its
  /// predecessor on the stream.
  virtual bool before(std::size_t step, CUstream stream) = 0;
  virtual void after(std::size_t step, CUstream stream) = 0;
};

/// A session's resources for loops and branches on its GPU.
class ControlFlow {
 public:
  /// `max_iterations`: limit of a run's total iterations of loops that are not unrolled.
  ControlFlow(graphs::ContextPtr context, std::int64_t max_iterations);

  /// Allocates memory and loads kernels if the plan has loops or branches; not during capture.
  void make(const plan::fb::PlanT& meta, CUstream stream);
  /// Whether loops can be conditional nodes: the driver must support them and assemble the kernel
  /// that sets the condition.
  bool has_nodes() const { return set_iteration_ != nullptr; }

  /// Launches a run's steps in order, and bodies as loops and branches require. `early`: the first
  /// kernel may start early (programmatic dependent launch). Synchronizes the stream where the host
  /// decides, which capture forbids.
  void put_run(std::span<const StepLaunches> steps, CUstream stream, bool early,
               AroundSteps* around = nullptr);
  /// Captures the bodies of loops that the host controls.
  void capture_bodies(std::span<StepLaunches> steps, CUstream stream);

  /// The loop step at which a finished run exceeded max_iterations, if any; clears it. `stream`: a
  /// stream that later runs use.
  std::optional<std::size_t> take_overrun(CUstream stream);
  /// By step: iterations of loops in the last run that was not captured.
  std::span<const std::int64_t> iterations() const { return iterations_; }

 private:
  /// Both return whether the next kernel may start early.
  bool put(std::span<const StepLaunches> steps, CUstream stream, bool early, std::size_t depth,
           AroundSteps* around = nullptr);
  bool put_loop(std::span<const StepLaunches> steps, CUstream stream, bool early,
                std::size_t depth);
  void put_body(const LoopLaunch& loop, std::span<const StepLaunches> body, CUstream stream,
                std::size_t depth);
  void put_branch(std::span<const StepLaunches> steps, CUstream stream, std::size_t depth);
  bool run_on_host(const StepLaunches& step, CUstream stream, bool continues);
  void count(const StepLaunches& step, CUstream stream, bool continues, std::uint64_t node);
  bool is_capturing(CUstream stream) const;
  CUstream body_stream(std::size_t depth) { return streams_[depth].handle(); }

  graphs::ContextPtr context_;
  std::int64_t max_iterations_;
  std::optional<graphs::Module> counting_, setting_;
  CUfunction count_iteration_ = nullptr, set_iteration_ = nullptr, set_branch_ = nullptr;
  graphs::DeviceMemory account_;         // layout: see count_iteration.ptx.inc
  graphs::PinnedMemory read_;            // host copy of it, and of a condition
  std::vector<graphs::Stream> streams_;  // for bodies, by nesting depth
  const StepLaunches* first_ = nullptr;  // first step of the current run
  std::vector<std::int64_t> iterations_;
};

}  // namespace sinter::runtime
