// SPDX-License-Identifier: Apache-2.0
// A step of a plan with sizes and addresses bound: what a run launches.
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
  std::vector<std::uint64_t> values;  // of the parameters
  std::vector<std::int64_t> buffers;  // whose address each is; -1: a number
  std::vector<CUtensorMap> maps;      // of those behind them
  std::vector<void*> arguments;       // into values and maps
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

/// Whatever a function of the user's puts on the stream.
struct HostLaunch {
  std::shared_ptr<HostCall> call;
  std::shared_ptr<const graphs::DeviceMemory> workspace;
};

using Launch =
    std::variant<KernelLaunch, MatmulLaunch, ConvLaunch, CopyLaunch, ZeroFill, HostLaunch>;
/// `early`: a kernel may start before what is in front of it on the stream has ended.
void launch(const Launch& work, const graphs::Driver& driver, CUstream stream, bool early = true);
/// Kernels, library calls or copies.
std::size_t launches_of(const Launch& work);

/// How the GPU gets from one iteration of a loop to the next, or to one of two branches.
enum class ControlMechanism {
  kCaptured,     // the body is put as often as the loop runs
  kConditional,  // a conditional node of a graph; outside of a graph as by the host
  kHost,         // the host reads the condition back
};
std::string_view to_string(ControlMechanism mechanism);

/// A loop: the steps of its body, which are next, are launched for each iteration. Captured, the
/// numbers of all iterations lie in memory side by side, and what reads the number gets the address
/// of its own; else it lies in the counter's own memory.
struct LoopLaunch {
  std::size_t steps = 0;
  std::int64_t trips = 0;     // -1: any number
  CUdeviceptr condition = 0;  // 0: none
  CUdeviceptr counter = 0;    // or the numbers
  ControlMechanism mechanism = ControlMechanism::kCaptured;
  std::vector<CUdeviceptr*> readers =
      {};  // parameters of launches in the body that are its address
  std::shared_ptr<const graphs::GraphExec> body = {};  // of a loop that the host runs, if it can be
};

/// The steps of two branches, which are next; one of them is run.
struct BranchLaunch {
  std::size_t then_steps = 0, else_steps = 0;
  CUdeviceptr condition = 0;
  ControlMechanism mechanism = ControlMechanism::kConditional;
};

/// One step: what it launches, in order; nothing if it has nothing to write for this shape.
struct StepLaunches {
  std::size_t index = 0;  // in the plan
  std::vector<Launch> works;
  std::string tactic;  // the one that was taken, of a step that has several
  std::optional<LoopLaunch> loop = {};
  std::optional<BranchLaunch> branch = {};
  std::string range = {};  // its name for profilers; empty if none is attached

  /// `early`: of its first work.
  void launch(const graphs::Driver& driver, CUstream stream, bool early = true) const;
  /// Kernels and library calls.
  std::size_t launches() const;
  /// Of memory that is the step's own.
  std::uint64_t workspace_bytes() const;
  /// Whether its first kernel starts before the step in front has ended.
  bool overlaps() const;
  /// The tactic and what libraries chose, for people; empty if nothing was chosen.
  std::string how() const;
  /// The steps behind it that are its bodies.
  std::size_t body_steps() const;
};

/// Whether some step's mechanism is `mechanism`.
bool uses(std::span<const StepLaunches> steps, ControlMechanism mechanism);
/// Whether data decide how often some step is run.
bool depends_on_data(std::span<const StepLaunches> steps);
/// How often each of them is launched in a run; `iterations`, by step: of loops that end on data.
std::vector<std::size_t> runs_of(std::span<const StepLaunches> steps,
                                 std::span<const std::int64_t> iterations = {});

/// The device address of every buffer of a plan for one bound shape; `is_foreign` marks those that
/// are the user's and may be written by runs alone.
struct BufferAddresses {
  std::vector<CUdeviceptr> address;
  std::vector<bool> is_foreign;
};

}  // namespace sinter::runtime
