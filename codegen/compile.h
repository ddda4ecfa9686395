// SPDX-License-Identifier: Apache-2.0
// The interface of codegen: a graph after all passes goes in, a plan comes out.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "codegen/compiled_plan.h"
#include "codegen/plan/compile_options.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// Throws Error(kUnsupported) that names a node without a lowering, Error(kDevice) if NVRTC is
/// missing, and Error(kInternal) with the path of a standalone reproducer if a generated kernel
/// does not compile.
CompiledPlan compile(const Graph& graph, const CompileOptions& options);

/// An entry point: the model's graph after the passes, for dimensions within `limits`.
struct EntryGraph {
  std::string name;
  Graph graph;
  std::map<std::string, ir::Range> limits;
};
/// A plan with several entry points, in this order, that share bindings, states, weights and equal
/// kernels. `model` has the bindings with the shapes of all of them, and ranges that include all
/// limits.
CompiledPlan compile_entries(const Graph& model, std::span<const EntryGraph> entries,
                             const CompileOptions& options);

/// The model's ranges, overridden by those of an entry point: its steps are compiled for these.
ir::Ranges ranges_of_entry(const ir::Ranges& model, const Graph& entry);

/// CompileOptions::packed_weights for plans that are parts of the plan of `graphs`.
std::set<std::uint64_t> packed_weights(std::span<const Graph* const> graphs,
                                       const CompileOptions& options);

}  // namespace sinter::codegen
