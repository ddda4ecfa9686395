// SPDX-License-Identifier: Apache-2.0
// The options of every verb that compiles.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/cli/console.h"
#include "tools/cli/options.h"
#include "tools/compiler/build/build.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tools {

/// As the command line has them.
struct BuildTexts {
  std::string model;
  CompileOptions options;  // what needs no reading
  std::string precision = "model", weights = "model", smooth = "auto";
  std::vector<std::string> keep, calibration;
  double max_layer_error = 0;
  std::string min_shapes, max_shapes;
  std::vector<std::string> dims;    // "seq=1..512" or "batch=8"
  std::vector<std::string> bounds;  // "frames=1000"
  std::vector<std::string> states;  // auto, none, or INPUT=OUTPUT
  std::string cache_precision = "model";
  std::string activation_scales = "static", attention_precision = "model";
  std::string paging_text;             // of --serve; empty: none
  std::string sample;                  // empty: none
  std::vector<std::string> entries;    // empty: one list of steps
  std::vector<std::string> constants;  // NAME=FILE.npy or NAME=FILE.pb
  std::string stop_after, dump_ir, dump_dir;
  std::string explain_fusion;  // empty: no; "summary" or "all"
  std::string max_memory;      // empty: half of what there is
  std::string cache_dir;       // kernel cache; "none" for none
};

/// `with_passes`: options about single passes, too.
void add_build_options(Command& verb, BuildTexts& texts, bool with_passes);
/// --fuse, which with_passes has, too.
void add_fuse_option(Command& verb, BuildTexts& texts);

/// --tune and what belongs to it.
struct TuneTexts {
  TuneOptions options;
  std::string shapes;
};
/// Behind add_build_options.
void add_tuning_options(Command& verb, TuneTexts& texts);
TuneOptions parse(const TuneTexts& texts);

/// What the texts ask for, told on `console`, which must outlive it. Graphs that --dump-ir asks for
/// are printed on stderr, or into files of --dump-dir. Throws Error(kUsage) quoting what it does
/// not know.
class BuildRequest {
 public:
  BuildRequest(const BuildTexts& texts, const Console& console);

  const Model& model() const { return options_.model; }
  const BuildOptions& options() const { return options_; }
  BuildOptions& options() { return options_; }

 private:
  NamedTensors constants_;  // which the options view
  BuildOptions options_;
};

/// What a verb does with one list of steps; its exit code.
using RunOfEntry = std::function<int(const BuildOptions& options, const Console& console)>;

/// Calls `run` for each entry point of `options` (entries_one_by_one) and says on stdout which it
/// is; in JSON mode the results become one object, {"entries": [..]}. Without entry points it is
/// one call. Returns the greatest exit code.
int run_each_entry(const BuildOptions& options, const RunInputs& inputs, const Console& console,
                   const RunOfEntry& run);

}  // namespace sinter::tools
