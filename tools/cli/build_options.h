// SPDX-License-Identifier: Apache-2.0
// The options of every verb that compiles.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/console.h"
#include "tools/cli/options.h"
#include "tools/compiler/build/build.h"
#include "tools/compiler/options/option_table.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tools {

/// The options of a verb that compiles, as the command line has them, by their rows
/// (tools/compiler/options/option_table.h).
struct BuildTexts {
  std::string model;
  /// By flag: those that were declared, empty as long as they are not given. CLI11 writes into
  /// them.
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, std::vector<std::string>, std::less<>> lists;  // may be repeated

  /// What was given for an option that is no list; else its default ("model" of --precision), or
  /// "".
  std::string_view text(std::string_view flag) const;
  const std::vector<std::string>& list(std::string_view flag) const;
  bool is_given(std::string_view flag) const;
};

/// Declares the options of <sinter/compile_option_rows.inc> that `verbs` have: kAll, kNotCompare,
/// kPasses or kCompile, each with those of the ones before.
void add_build_options(Command& verb, BuildTexts& texts, OptionVerbs verbs);

/// Throws Error(kUsage) naming the first option of compiling that was given: `file` is a plan, or a
/// report, which no such option changes.
void check_no_build_options(const BuildTexts& texts, const std::string& file);

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
