// The front door of codegen: a graph that the passes have finished with in, a plan out.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "codegen/compiled_plan.h"
#include "codegen/plan/compile_options.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// Throws Error(kUnsupported) naming a node that no lowering takes, Error(kDevice) if NVRTC is
/// missing, Error(kInternal) with a standalone reproducer's path if a generated kernel does not
/// compile.
CompiledPlan compile(const Graph& graph, const CompileOptions& options);

/// One tactic to run a plan: what the passes made of the model for dimensions within `limits`.
struct EntryGraph {
  std::string name;
  Graph graph;
  std::map<std::string, ir::Range> limits;
};
/// A plan with several entry points, in this order. They share bindings, states, weights and
/// kernels that are the same. `model`: the graph whose bindings have the shapes of all of them, and
/// whose ranges hold all limits.
CompiledPlan compile_entries(const Graph& model, std::span<const EntryGraph> entries,
                             const CompileOptions& options);

/// The model's ranges, with an entry point's in the place of the same symbols': what its steps are
/// compiled for.
ir::Ranges ranges_of_entry(const ir::Ranges& model, const Graph& entry);

/// CompileOptions::packed_weights for plans that are parts of the one of `graphs`.
std::set<std::uint64_t> packed_weights(std::span<const Graph* const> graphs,
                                       const CompileOptions& options);

}  // namespace sinter::codegen
