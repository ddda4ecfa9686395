// SPDX-License-Identifier: Apache-2.0
// Loops and branches of a launch list, put on a stream or into a graph that it captures.
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

/// The mechanism of each step that has one, by its place among those of `steps`. A loop whose
/// number of iterations is known is captured, unless that were too many launches.
std::vector<ControlMechanism> choose_mechanisms(const plan::fb::PlanT& meta,
                                                const BoundShape& shape, bool conditional_nodes);

/// What is put around the steps of a run; a loop or branch is one with its bodies.
class AroundSteps {
 public:
  virtual ~AroundSteps() = default;
  /// Before step number `step` of the run. True: it waits for something besides what is in front.
  virtual bool before(std::size_t step, CUstream stream) = 0;
  virtual void after(std::size_t step, CUstream stream) = 0;
};

/// What a session's loops and branches need of its GPU.
class ControlFlow {
 public:
  /// `max_iterations`: of all loops of a run together that are not captured.
  ControlFlow(graphs::ContextPtr context, std::int64_t max_iterations);

  /// Makes memory and kernels if the plan has loops or branches; not in a capture.
  void make(const plan::fb::PlanT& meta, CUstream stream);
  /// Whether loops may be conditional nodes: the driver has them, and assembles a kernel that sets
  /// their condition.
  bool has_nodes() const { return set_iteration_ != nullptr; }

  /// A run's steps: all of them, one after the other, and bodies as loops and branches say.
  /// `early`: of the first work. Waits for the stream where the host decides, which no capture
  /// allows.
  void put_run(std::span<const StepLaunches> steps, CUstream stream, bool early,
               AroundSteps* around = nullptr);
  /// Captures the bodies of loops that the host runs.
  void capture_bodies(std::span<StepLaunches> steps, CUstream stream);

  /// The plan's step at which a run that has ended was beyond max_iterations, if one was; what
  /// this clears. `stream`: one that later runs are on.
  std::optional<std::size_t> take_overrun(CUstream stream);
  /// By step: iterations of loops in the last run that was put outside of a capture.
  std::span<const std::int64_t> iterations() const { return iterations_; }

 private:
  /// Both return whether a kernel that comes next may start early.
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
  graphs::DeviceMemory account_;         // see count_iteration.ptx.inc
  graphs::PinnedMemory read_;            // a copy of it, and a condition
  std::vector<graphs::Stream> streams_;  // of bodies, by depth
  const StepLaunches* first_ = nullptr;  // of the steps that are being put
  std::vector<std::int64_t> iterations_;
};

}  // namespace sinter::runtime
