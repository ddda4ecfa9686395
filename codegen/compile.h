// The front door of codegen: a graph that the passes have finished with in, a plan out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "codegen/emit/schedule_choice.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct CompileOptions {
  bool cuda = false;
  std::vector<std::string> architectures;  // cuda: "sm_90", ... at least one
  bool tf32 = false;                       // float32 products may use tf32
  /// False: kernels are not compiled. Steps, traffic and memory are those of the plan, which
  /// nothing can run: for what a model would cost.
  bool code = true;
  /// How fused products are done, for measuring: empty: every way that may be best; "library";
  /// "alone": by a kernel of our own and another for what follows; "groups", "groups alone": the
  /// same by warpgroups; "unpacked": quantised weights are made floats first, as for "library"; or
  /// the schedule of one kernel for all ("product 64x32x64 warps=...").
  std::string product;
  std::string schedule;  // of every generated kernel of rows or elements, for measuring
  /// Schedules in place of the rules', by KernelInfo::key. Those that are no candidates, and those
  /// of other kernels, change nothing.
  std::map<std::string, ChosenSchedules> schedules;
  bool list_candidates = false;  // fill VariantInfo::candidates
  /// Hashes of the constants that may be packed as weights, of a plan that is a part of another;
  /// nothing: what the graphs themselves say (packed_buffers.h).
  std::optional<std::set<std::uint64_t>> packed_weights;
  bool precise_math = false;  // no cheaper forms of functions (codegen/emit/approximations.h)
  bool early_launch = false;  // generated kernels start before the one in front ends
  int threads = 0;            // NVRTC compilations at once; 0: all cores
  std::string cache_dir;      // kernel cache; empty: none
  /// Called as work proceeds: done of total kernels.
  std::function<void(std::size_t done, std::size_t total)> progress;
  /// Called between nodes and between kernels, by one thread at a time; what it throws ends the
  /// compilation.
  std::function<void()> checkpoint;
  /// Called with a kernel's name and text before NVRTC has it; may change it, as tests do to see
  /// what a defect in it leads to.
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

/// A node of the graph that is compiled, or of the one of entry point number `entry`.
struct NodePlace {
  std::size_t entry = 0, node = 0;
};

/// A generated kernel that NVRTC does not take: a defect of Sinter.
struct RefusedKernel {
  std::string name, architecture;
  std::vector<std::string> origins;  // ONNX nodes
  std::vector<NodePlace> nodes;      // that it is a kernel of
  std::string log;                   // the compiler's
  std::string reproducer;            // path of a standalone file, or why there is none
};

/// Error(kInternal) of all kernels that NVRTC does not take: the caller may separate their nodes
/// (fusion/separate.h) and try again.
class KernelsRefused : public Error {
 public:
  explicit KernelsRefused(std::vector<RefusedKernel> refused);
  std::vector<RefusedKernel> kernels;
};

/// A size that a variant of a kernel needs.
struct SizeCondition {
  ir::Dim size;
  std::int64_t divisor = 1, max = INT64_MAX;
  bool holds(const ir::Bindings& symbols) const {
    const std::int64_t value = size.evaluate(symbols);
    return value % divisor == 0 && value <= max;
  }
};

/// One of the variants that the rules make of a kernel; the first whose conditions hold is run.
struct VariantInfo {
  std::vector<SizeCondition> conditions;
  std::vector<std::string> candidates;  // schedules that it can have, the rule's own first
  std::string refused;                  // CompileOptions::schedules has it, but it is no candidate
};

/// A generated kernel that has a choice of schedules.
struct KernelInfo {
  std::string name;
  /// Says everything that schedules depend on: program, types, ranges of sizes, options.
  std::string key;
  std::size_t entry = 0;  // the first that uses it: the entry point,
  std::size_t node = 0;   // and the node of its graph
  std::size_t uses = 0;
  /// How CompileOptions::product makes this kernel, and no other way to do the step, from that
  /// node: empty: the step is this kernel alone; "product": by a schedule.
  std::string way;
  ir::Dim bytes, flops;  // of the first step that uses it
  std::vector<VariantInfo> variants;
};

struct CompileStats {
  std::size_t kernels = 0, cache_hits = 0;
  double nvrtc_seconds = 0;
};

/// How a state gets its new value.
struct StateInfo {
  std::string input, output;
  bool in_place = false;  // else it is copied after all steps
  std::string reason;     // why it is copied
};

struct CompiledPlan {
  plan::PlanParts parts;
  std::vector<StateInfo> states;
  CompileStats stats;
  std::vector<KernelInfo> kernels;
};

/// Throws Error(kUnsupported) naming a node that no lowering takes, Error(kDevice) if NVRTC is
/// missing, Error(kInternal) with a standalone reproducer's path if a generated kernel does not
/// compile.
CompiledPlan compile(const ir::Graph& graph, const CompileOptions& options);

/// One way to run a plan: what the passes made of the model for dimensions within `limits`.
struct EntryGraph {
  std::string name;
  ir::Graph graph;
  std::map<std::string, ir::Range> limits;
};
/// A plan with several entry points, in this order. They share bindings, states, weights and
/// kernels that are the same. `model`: the graph whose bindings have the shapes of all of them, and
/// whose ranges hold all limits.
CompiledPlan compile_entries(const ir::Graph& model, std::span<const EntryGraph> entries,
                             const CompileOptions& options);

}  // namespace sinter::codegen
