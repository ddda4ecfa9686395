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

/// Times plans with equal inputs and outputs, which it allocates on a GPU once.
class TrialBench {
 public:
  virtual ~TrialBench() = default;
  /// One measurement, in microseconds and with cold caches, of the kernel of `plan` with this
  /// schedule. Throws as a session, and Error(kUnsupported) if no such kernel runs.
  using Reading = std::function<double()>;
  virtual Reading open(const codegen::CompiledPlan& plan, const std::string& schedule) = 0;
};

/// The machine for timing: a GPU, or a test's replacement.
struct TuningMachine {
  std::string gpu;           // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string versions;      // human-readable: "driver 13.0"
  /// Creates a bench for plans of `region` with bound symbols.
  std::function<std::unique_ptr<TrialBench>(const ir::Graph& region, const ir::Bindings& sizes)>
      bench;
};
/// GPU number `device`. Throws Error(kDevice) if it does not exist.
TuningMachine gpu_machine(int device);

struct TuningBudget {
  double seconds = 0;               // budget for all kernels; the current one may exceed it
  std::vector<ir::Bindings> sizes;  // values of all symbols, for each graph
  int jobs = 0;                     // parallel compilations; 0: all cores
};

/// Result for one kernel.
struct TunedKernel : TunedKernelResult {
  std::string key;
  std::size_t variant = 0;
};

/// A candidate replaces the rule's choice only if it is faster by this fraction in both of two
/// readings.
inline constexpr double kTuningMargin = 0.02;

/// Times candidates for the kernel variants that `model` (after all passes), or `entries` if any,
/// run at the given sizes; candidates alternate with the rule's choice. Kernels with the longest
/// estimated time come first and get time in proportion. A kernel of several entry points is tuned
/// at the first one's sizes. `compile`: the plan's options, with only this machine's architecture;
/// variants in its `schedules` are skipped. Progress is stage "tuning kernels".
std::vector<TunedKernel> tune_kernels(const ir::Graph& model,
                                      std::span<const codegen::EntryGraph> entries,
                                      const codegen::CompileOptions& compile,
                                      const TuningMachine& machine, const TuningBudget& budget,
                                      const Reporter& reporter);

/// A graph of node `n` with the reshapes before it, over symbols with these ranges. Its inputs are
/// the node's, plus one with each symbol's size, so that every symbol is known; constants stay.
ir::Graph region_graph(const ir::Graph& graph, std::size_t n, const ir::Ranges& ranges);

}  // namespace sinter::tools
