// From an ONNX file to a plan: what compile, compare and verify share.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "frontend/import.h"
#include "fusion/pipeline.h"
#include "tools/cli/console.h"
#include "tools/cli/options.h"
#include "tools/compiler/options/shapes.h"
#include "tools/compiler/options/weights.h"

namespace sinter::tools {

struct Target {
  bool cuda = false;
  std::vector<std::string> architectures;
  std::string to_string() const;
};
struct BuildOptions {
  std::string model;
  std::string target = "auto";      // auto, cpu, cuda, cuda:sm_90,sm_80
  std::string precision = "model";  // model, fp16, bf16, tf32
  WeightTexts weights;
  bool fuse = true;
  ShapeOptions shapes;
  bool nms_pad = false;
  std::vector<std::string> states;     // auto, none, or INPUT=OUTPUT
  std::string sample;                  // parse_sampler's text; empty: none
  std::vector<std::string> entries;    // parse_entries' texts; empty: one list of steps
  std::vector<std::string> constants;  // inputs fixed to a value: NAME=FILE.npy or NAME=FILE.pb
  std::vector<std::string> disabled_passes;
  std::string stop_after, dump_ir, dump_dir;
  bool explain_fusion = false;
  bool early_launch = true;
  bool precise_math = false;
  std::string schedule;
  /// Called with what the passes made before code is generated: may choose schedules. `model` is
  /// that graph, or the one with the bindings of `entries`.
  std::function<void(const ir::Graph& model, std::span<const codegen::EntryGraph> entries,
                     const Target& target, codegen::CompileOptions&)>
      tune;
  bool code = true;  // false: no kernels are compiled, for looking at the plan's steps
  int jobs = 0;
  std::string cache_dir;  // kernel cache; "none" for none
};

/// Adds the options that every verb that compiles has. `with_passes`: those about single passes,
/// too.
void add_build_options(Command& verb, BuildOptions& options, bool with_passes);

/// Adds --fuse, which with_passes has, too.
void add_fuse_option(Command& verb, BuildOptions& options);

/// Resolves --target: "auto" is the GPU that is found, else the CPU; "cuda" is the GPU's own
/// architecture. Throws Error(kUsage) or Error(kDevice) saying what to write instead.
Target resolve_target(const std::string& text);

/// The default kernel cache: $SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else ~/.cache/sinter.
std::string default_cache_dir();

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
void require_one_entry(const BuildOptions& options, const char* what);

frontend::ImportedModel import_with_shapes(const BuildOptions& options);
/// Runs the passes, printing what --dump-ir asks for (on stderr, or into files of --dump-dir), and
/// calls `after` with the result of each.
PipelineRun run_passes(
    const BuildOptions& options, const frontend::ImportedModel& model, const Target& target,
    const Console& console,
    const std::function<void(std::string_view pass, const ir::Graph& graph)>& after = {});
BuildResult build_plan(const BuildOptions& options, const Console& console);
/// The same without import: `model` and `target` are given.
BuildResult build_plan(const BuildOptions& options, frontend::ImportedModel model,
                       const Target& target, const Console& console);

/// The plan as the runtime sees it after writing and reading.
Plan load_built(const codegen::CompiledPlan& plan);

/// Inputs of an imported graph, described as a plan's are.
std::vector<BindingInfo> describe_inputs(const ir::Graph& graph);

}  // namespace sinter::tools
