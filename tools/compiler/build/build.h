// SPDX-License-Identifier: Apache-2.0
// From a model to a plan: what compile, compare and verify share.
#pragma once

#include <functional>
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

/// What is compiled and how, and what only parts of the compiler itself and the command line ask
/// for. `monitor`, `tuning` and `verify` are not looked at here: see Reporter, Tuning and
/// measure_accuracy.
struct BuildOptions : CompileOptions {
  Model model;
  std::string stop_after;  // a pass behind which the pipeline ends
  bool code = true;        // false: no kernels are compiled, for looking at the plan's steps
  /// Called with the imported graph ("import", after) and the graphs before and after each pass;
  /// `entry`: whose graph it is, if it is one entry point's.
  std::function<void(std::string_view pass, bool after, const ir::Graph& graph,
                     const std::string& entry)>
      observe;
  /// Called with what the passes made before code is generated: may choose schedules. `model` is
  /// that graph, or the one with the bindings of `entries`.
  std::function<void(const ir::Graph& model, std::span<const codegen::EntryGraph> entries,
                     const Target& target, codegen::CompileOptions&)>
      tune;
  /// codegen::CompileOptions::edit_source.
  std::function<void(const std::string& name, std::string& source)> edit_source;

  BuildOptions() = default;
  BuildOptions(Model what, const CompileOptions& how)
      : CompileOptions(how), model(std::move(what)) {}
};

/// More kernels at once than this are no faster anywhere.
inline constexpr int kMaxJobs = 1024;

struct PipelineRun {
  ir::Graph graph;  // with entry points the first one's
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
  codegen::CompileOptions compile;  // that the plan was compiled with
  codegen::CompiledPlan plan;
  BuildTimes times;
};

/// Throws Error(kUsage) if entry points are asked for: `what` shows or does one list of steps.
void require_one_entry(const CompileOptions& options, std::string_view what);

/// Runs the passes, and calls `after` with the result of each.
PipelineRun run_passes(
    const BuildOptions& options, const frontend::ImportedModel& model, const Target& target,
    Reporter& reporter,
    const std::function<void(std::string_view pass, const ir::Graph& graph)>& after = {});
BuildResult build_plan(const BuildOptions& options, Reporter& reporter);
/// The same without import: `model` and `target` are given.
BuildResult build_plan(const BuildOptions& options, frontend::ImportedModel model,
                       const Target& target, Reporter& reporter);

}  // namespace sinter::tools
