// SPDX-License-Identifier: Apache-2.0
// The target and the options of a compilation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/plan/schedule_choice.h"
#include "codegen/targets/cpu/cpu_target.h"

namespace sinter::codegen {

struct CompileOptions {
  const Target* target = &cpu_target();
  std::vector<std::string> architectures;  // "sm_90", ...: at least one if the target generates
                                           // kernels
  bool tf32 = false;                       // float32 matmuls may use tf32
  /// fp8 matmuls keep sums in the tensor cores' accumulators (about 14 bits).
  bool fast_accumulation = false;
  /// CPU: rows that meet quantized weights are rounded to 8 bits by blocks.
  bool int8_activations = false;
  /// False: do not compile kernels. The plan has its steps, traffic and memory but cannot run; for
  /// cost estimates.
  bool code = true;
  /// Tactic for all regions of kind "gemm", for measurements. Empty: all that may be fastest.
  /// "library". "alone": our kernel, and an epilogue kernel. "warp-specialized" and
  /// "warp-specialized alone": the same for those kernels. "dequantized": dequantize weights first,
  /// then as "library". Or one kernel's schedule ("warp_tile 64x32x64 warps=...").
  std::string gemm;
  std::string schedule;  // of every generated loop kernel, for measurements
  /// Schedules that replace the rules', by KernelInfo::key. Those that are not candidates, or
  /// belong to other kernels, are ignored.
  std::map<std::string, ChosenSchedules> schedules;
  bool list_candidates = false;  // fill VariantInfo::candidates
  /// Hashes of the constants that may be packed as weights, if this plan is part of another one.
  /// Unset: the graphs decide (packed_buffers.h).
  std::optional<std::set<std::uint64_t>> packed_weights;
  bool precise_math = false;  // no cheaper forms of functions (codegen/emit/approximations.h)
  bool programmatic_launch = false;  // generated kernels start before the preceding one ends
  bool tasks = false;                // runs of steps as tasks of one launch, where they can be
  int threads = 0;                   // concurrent NVRTC compilations; 0: all cores
  std::string cache_dir;             // kernel cache; empty: none
  /// Called after each kernel: `done` of `total`.
  std::function<void(std::size_t done, std::size_t total)> progress;
  /// Called between nodes and between kernels, by one thread at a time; an exception from it aborts
  /// the compilation.
  std::function<void()> checkpoint;
  /// Called with a kernel's name and text before NVRTC compiles it. May change the text: tests
  /// inject defects to check that they are reported.
  std::function<void(const std::string& name, std::string& source)> edit_source;
  /// Of a graph of several ranks (ir/ranks/ranks.h): their number, and the states of which each has
  /// a part.
  std::int64_t ranks = 1;
  struct SplitState {
    std::string input;
    int axis = 0;
    std::int64_t parts = 1;
  };
  std::vector<SplitState> split_states;
  /// For each symbol that equals a one-element input: the input's name.
  std::map<std::string, std::string> values_of;
  // copied into the manifest:
  std::string model_name;
  std::uint64_t model_hash = 0;
  std::size_t nodes_imported = 0;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> precision_notes;
};

}  // namespace sinter::codegen
