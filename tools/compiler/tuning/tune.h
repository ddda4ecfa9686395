// SPDX-License-Identifier: Apache-2.0
// Schedules of generated kernels, chosen by timing them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "ir/graph.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// Times plans that have the same inputs and outputs, which lie on a GPU, once for all of them.
class TrialBench {
 public:
  virtual ~TrialBench() = default;
  /// One reading, in microseconds, of the kernel of `plan` that has this schedule; caches are cold.
  /// Throws what a session throws, and Error(kUnsupported) if no such kernel runs.
  using Reading = std::function<double()>;
  virtual Reading open(const codegen::CompiledPlan& plan, const std::string& schedule) = 0;
};

/// What kernels are timed on: a GPU, or what a test puts in its place.
struct TuningMachine {
  std::string gpu;           // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string versions;      // for people: "driver 13.0"
  /// A bench for plans of `region`, with its symbols bound.
  std::function<std::unique_ptr<TrialBench>(const ir::Graph& region, const ir::Bindings& sizes)>
      bench;
};
/// The GPU `device`. Throws Error(kDevice) where there is none.
TuningMachine gpu_machine(int device);

struct TuningBudget {
  double seconds = 0;  // for all kernels; one that has been begun may take a little more
  std::vector<ir::Bindings> sizes;  // of every symbol of the plan, for each graph
  int jobs = 0;                     // kernels to compile at once; 0: all cores
};

/// What came of one kernel.
struct TunedKernel : TunedKernelResult {
  std::string key;
  std::size_t variant = 0;
};

/// A candidate takes the rule's place only if it is faster by this share in both of two readings.
inline constexpr double kTuningMargin = 0.02;

/// Times candidates for the variants that kernels of `model` (which the passes have finished with),
/// or of `entries`, if there are any, run at the given sizes, each beside the rule's choice,
/// interleaved. Kernels that are thought to take longest come first and get time in proportion; one
/// that several entry points use is tuned at the sizes of the first. `compile`: how the plan will
/// be compiled, for the machine's architecture alone; variants that its `schedules` has are left as
/// they are. Progress is stage "tuning kernels".
std::vector<TunedKernel> tune_kernels(const ir::Graph& model,
                                      std::span<const codegen::EntryGraph> entries,
                                      const codegen::CompileOptions& compile,
                                      const TuningMachine& machine, const TuningBudget& budget,
                                      const Reporter& reporter);

/// A graph of node `n` alone, with the reshapes in front of it, over symbols of these ranges. Its
/// inputs are the node's and, so that every symbol is known, one of each symbol's size; constants
/// stay.
ir::Graph region_graph(const ir::Graph& graph, std::size_t n, const ir::Ranges& ranges);

}  // namespace sinter::tools
