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

/// Values of a compiling verb's options from the command line, by the rows of
/// tools/compiler/options/option_table.h.
struct BuildTexts {
  std::string model;
  /// By flag: every declared option, empty unless given. CLI11 writes into these.
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, std::vector<std::string>, std::less<>> lists;  // for repeatable options

  /// The value of an option that is no list; if not given, its default ("model" for --precision),
  /// or "".
  std::string_view text(std::string_view flag) const;
  const std::vector<std::string>& list(std::string_view flag) const;
  bool is_given(std::string_view flag) const;
};

/// Declares the options of <sinter/compile_option_rows.inc> for `verbs`: kAll, kNotCompare, kPasses
/// or kCompile; each includes the previous ones.
void add_build_options(Command& verb, BuildTexts& texts, OptionVerbs verbs);

/// Throws Error(kUsage) naming the first given compile option: `file` is a plan or a report, to
/// which no such option applies.
void check_no_build_options(const BuildTexts& texts, const std::string& file);

/// Parses the texts into BuildOptions that report to `console`, which must outlive this. Prints the
/// graphs of --dump-ir on stderr, or writes them to --dump-dir. Throws Error(kUsage) quoting
/// invalid text.
class BuildRequest {
 public:
  BuildRequest(const BuildTexts& texts, const Console& console);

  const Model& model() const { return options_.model; }
  const BuildOptions& options() const { return options_; }
  BuildOptions& options() { return options_; }

 private:
  NamedTensors constants_;  // data that the options view
  BuildOptions options_;
};

/// Runs a verb on one list of steps; returns its exit code.
using RunOfEntry = std::function<int(const BuildOptions& options, const Console& console)>;

/// Calls `run` for each entry point of `options` (entries_one_by_one) and prints its name on
/// stdout. In JSON mode the results become one object, {"entries": [..]}. Without entry points
/// calls it once. Returns the largest exit code.
int run_each_entry(const BuildOptions& options, const RunInputs& inputs, const Console& console,
                   const RunOfEntry& run);

}  // namespace sinter::tools
