// SPDX-License-Identifier: Apache-2.0
// The launches of a step with bound sizes and addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "graphs/module.h"
#include "runtime/cuda/cublaslt/matmul_cublaslt.h"
#include "runtime/cuda/cudnn/conv_cudnn.h"
#include "runtime/operators/host_operators.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

struct KernelLaunch {
  const plan::fb::KernelVariantT* variant = nullptr;  // the plan's
  CUfunction function = nullptr;
  graphs::LaunchConfig config;
  std::vector<std::uint64_t> values;  // of the kernel's parameters
  std::vector<std::int64_t> buffers;  // buffer whose address the parameter is; -1: a number
  std::vector<CUtensorMap> maps;      // tensor maps, the parameters after these
  std::vector<void*> arguments;       // pointers into values and maps
};
struct CopyLaunch {
  CUdeviceptr target = 0, source = 0;
  std::uint64_t bytes = 0;
  std::uint32_t source_buffer = 0;
};
struct ZeroFill {
  CUdeviceptr target = 0;
  std::uint64_t bytes = 0;
};

/// A user's host operator, which enqueues its own work.
struct HostLaunch {
  std::shared_ptr<HostCall> call;
  std::shared_ptr<const graphs::DeviceMemory> workspace;
};

using Launch =
    std::variant<KernelLaunch, MatmulLaunch, ConvLaunch, CopyLaunch, ZeroFill, HostLaunch>;
/// `early`: a kernel may start before its predecessor on the stream has ended (programmatic
/// dependent launch).
void launch(const Launch& work, const graphs::Driver& driver, CUstream stream, bool early = true);
/// Number of kernels, library calls and copies.
std::size_t launches_of(const Launch& work);

/// How a loop advances to its next iteration, or a branch selects its body.
enum class ControlMechanism {
  kCaptured,     // unrolled: the body is captured once per iteration
  kConditional,  // a conditional graph node; outside of a graph as kHost
  kHost,         // the host reads the condition back
};
std::string_view to_string(ControlMechanism mechanism);

/// A loop: launches the steps after it, its body, for each iteration. Unrolled, all iteration
/// numbers are in an array, and each iteration's readers get the address of its number. Otherwise
/// the number is in the counter's memory.
struct LoopLaunch {
  std::size_t steps = 0;
  std::int64_t trips = 0;     // -1: unknown
  CUdeviceptr condition = 0;  // 0: none
  CUdeviceptr counter = 0;    // or the array of iteration numbers
  ControlMechanism mechanism = ControlMechanism::kCaptured;
  std::vector<CUdeviceptr*> readers =
      {};  // parameters of launches in the body that hold the counter's address
  std::shared_ptr<const graphs::GraphExec> body = {};  // graph of the body, for a loop that the
                                                       // host controls, if it can be captured
};

/// A branch: runs one of the two bodies that follow it.
struct BranchLaunch {
  std::size_t then_steps = 0, else_steps = 0;
  CUdeviceptr condition = 0;
  ControlMechanism mechanism = ControlMechanism::kConditional;
};

/// One step's launches, in order; empty if it writes nothing for this shape.
struct StepLaunches {
  std::size_t index = 0;  // index in the plan
  std::vector<Launch> works;
  std::string tactic;  // the chosen tactic, if the step has several
  std::optional<LoopLaunch> loop = {};
  std::optional<BranchLaunch> branch = {};
  std::string range = {};  // name for profilers; empty if none is attached

  /// `early`: applies to the first launch.
  void launch(const graphs::Driver& driver, CUstream stream, bool early = true) const;
  /// Number of kernels and library calls.
  std::size_t launches() const;
  /// Bytes of workspace that belong to the step.
  std::uint64_t workspace_bytes() const;
  /// Whether its first kernel starts before the previous step has ended.
  bool overlaps() const;
  /// Chosen tactic and library algorithms, human-readable; empty if there was no choice.
  std::string how() const;
  /// Number of steps after it that are its bodies.
  std::size_t body_steps() const;
};

/// Whether some step uses `mechanism`.
bool uses(std::span<const StepLaunches> steps, ControlMechanism mechanism);
/// Whether data determine how often some step runs.
bool depends_on_data(std::span<const StepLaunches> steps);
/// Executions of each step in a run; `iterations`, by step, are needed for loops that end on data.
std::vector<std::size_t> runs_of(std::span<const StepLaunches> steps,
                                 std::span<const std::int64_t> iterations = {});

/// Device addresses of all buffers of a plan for one bound shape; `is_foreign` marks those that
/// only runs may write (the user's memory, and states).
struct BufferAddresses {
  std::vector<CUdeviceptr> address;
  std::vector<bool> is_foreign;
};

}  // namespace sinter::runtime
