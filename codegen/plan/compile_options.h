// What a graph is compiled for, and how.
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
  std::vector<std::string> architectures;  // "sm_90", ...: at least one where kernels are made
  bool tf32 = false;                       // float32 products may use tf32
  /// Sums of products of 8-bit floats stay in the tensor cores' accumulators, of about 14 bits.
  bool fast_accumulation = false;
  /// False: kernels are not compiled. Steps, traffic and memory are those of the plan, which
  /// nothing can run: for what a model would cost.
  bool code = true;
  /// How regions of kind "gemm" are done, for measuring: empty: every way that may be best;
  /// "library"; "alone": by a kernel of our own and another for what follows; "warp-specialized",
  /// "warp-specialized alone": the same by warpgroups; "dequantized": quantized weights are made
  /// floats first, as for "library"; or the schedule of one kernel for all ("warp_tile 64x32x64
  /// warps=...").
  std::string gemm;
  std::string schedule;  // of every generated kernel of rows or elements, for measuring
  /// Schedules in place of the rules', by KernelInfo::key. Those that are no candidates, and those
  /// of other kernels, change nothing.
  std::map<std::string, ChosenSchedules> schedules;
  bool list_candidates = false;  // fill VariantInfo::candidates
  /// Hashes of the constants that may be packed as weights, of a plan that is a part of another;
  /// nothing: what the graphs themselves say (packed_buffers.h).
  std::optional<std::set<std::uint64_t>> packed_weights;
  bool precise_math = false;  // no cheaper forms of functions (codegen/emit/approximations.h)
  bool programmatic_launch = false;  // generated kernels start before the one in front ends
  int threads = 0;                   // NVRTC compilations at once; 0: all cores
  std::string cache_dir;             // kernel cache; empty: none
  /// Called as work proceeds: done of total kernels.
  std::function<void(std::size_t done, std::size_t total)> progress;
  /// Called between nodes and between kernels, by one thread at a time; what it throws ends the
  /// compilation.
  std::function<void()> checkpoint;
  /// Called with a kernel's name and text before NVRTC has it; may change it, as tests do to see
  /// what a defect in it is_producer to.
  std::function<void(const std::string& name, std::string& source)> edit_source;
  /// Symbols that are the value of an input of one element, by symbol: its name.
  std::map<std::string, std::string> values_of;
  // copied into the manifest:
  std::string model_name;
  std::uint64_t model_hash = 0;
  std::size_t nodes_imported = 0;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> precision_notes;
};

}  // namespace sinter::codegen
