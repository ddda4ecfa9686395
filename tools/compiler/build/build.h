// SPDX-License-Identifier: Apache-2.0
// Builds a plan from a model; shared by compile, compare and verify.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/compiler.h>

#include "codegen/compile.h"
#include "frontend/import.h"
#include "fusion/pipeline.h"
#include "tools/compiler/build/built_plan.h"
#include "tools/compiler/build/target.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// CompileOptions with the model and internal hooks. `monitor`, `tuning` and `verify` are not used
/// here: see Reporter, Tuning and measure_accuracy.
struct BuildOptions : CompileOptions {
  Model model;
  std::string stop_after;  // the last pass to run
  bool code = true;        // false: compiles no kernels, to inspect the plan's steps
  /// Called with the imported graph ("import", after) and the graphs before and after each pass;
  /// `entry`: name of the graph's entry point, if any.
  std::function<void(std::string_view pass, bool after, const ir::Graph& graph,
                     const std::string& entry)>
      observe;
  /// Called between passes and code generation; may choose schedules. `model` is the passes'
  /// result, or the graph with the bindings of `entries`.
  std::function<void(const ir::Graph& model, std::span<const codegen::EntryGraph> entries,
                     const Target& target, codegen::CompileOptions&)>
      tune;
  /// Replaces the figures of devices by which `tensor_parallel` ranks share a model: tests.
  std::optional<fusion::ShardingOptions> sharding;
  /// codegen::CompileOptions::edit_source.
  std::function<void(const std::string& name, std::string& source)> edit_source;

  BuildOptions() = default;
  BuildOptions(Model what, const CompileOptions& how)
      : CompileOptions(how), model(std::move(what)) {}
};

/// Limit of parallel compilations; more are not faster on any machine.
inline constexpr int kMaxJobs = 1024;

struct PipelineRun {
  ir::Graph graph;  // the first entry point's, if there are several
  fusion::Context context;
  std::vector<fusion::PassTime> times;
};

struct BuildTimes {
  double import_ms = 0, passes_ms = 0, codegen_ms = 0;
};
struct BuildResult {
  frontend::ImportedModel model;
  Target target;
  PipelineRun pipeline;
  codegen::CompileOptions compile;  // options with which the plan was compiled
  codegen::CompiledPlan plan;
  BuildTimes times;
};

/// Throws Error(kUsage) if entry points are requested: `what` handles a single list of steps.
void require_one_entry(const CompileOptions& options, std::string_view what);

/// Runs the passes and calls `after` with each result.
PipelineRun run_passes(
    const BuildOptions& options, const frontend::ImportedModel& model, const Target& target,
    Reporter& reporter,
    const std::function<void(std::string_view pass, const ir::Graph& graph)>& after = {});
BuildResult build_plan(const BuildOptions& options, Reporter& reporter);
/// The same with an imported `model` and a resolved `target`.
BuildResult build_plan(const BuildOptions& options, frontend::ImportedModel model,
                       const Target& target, Reporter& reporter);

}  // namespace sinter::tools
