// The front door of codegen: a graph that the passes have finished with in, a plan out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct CompileOptions {
  bool cuda = false;
  std::vector<std::string> architectures;  // cuda: "sm_90", ... at least one
  bool tf32 = false;                       // float32 products may use tf32
  /// How fused products are done, for measuring: empty: every way that may be best; "library";
  /// "alone": by a kernel of our own and another for what follows; or the schedule of one kernel
  /// for all ("product 64x32x64 warps=...").
  std::string product;
  std::string schedule;       // of every generated kernel of rows or elements, for measuring
  bool precise_math = false;  // no cheaper forms of functions (codegen/cuda/approximations.h)
  bool early_launch = false;  // generated kernels start before the one in front ends
  int threads = 0;            // NVRTC compilations at once; 0: all cores
  std::string cache_dir;      // kernel cache; empty: none
  /// Called as work proceeds: done of total kernels.
  std::function<void(std::size_t done, std::size_t total)> progress;
  // copied into the manifest:
  std::string model_name;
  std::uint64_t model_hash = 0;
  std::size_t nodes_imported = 0;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> precision_notes;
};

struct CompileStats {
  std::size_t kernels = 0, cache_hits = 0;
  double nvrtc_seconds = 0;
};

struct CompiledPlan {
  plan::PlanParts parts;
  CompileStats stats;
};

/// Throws Error(kUnsupported) naming a node that no lowering takes, Error(kDevice) if NVRTC is
/// missing, Error(kInternal) with a standalone reproducer's path if a generated kernel does not
/// compile.
CompiledPlan compile(const ir::Graph& graph, const CompileOptions& options);

}  // namespace sinter::codegen
