// SPDX-License-Identifier: Apache-2.0
// Values of options by their rows: from the texts of the command line, and into the manifest's.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/compile_options.h>

#include "tools/compiler/options/option_table.h"

namespace sinter::tools {

/// Gives `options` what `text` says: "on" of a flag, one more value of an option that may be
/// repeated. Throws Error(kUsage) naming the flag, also for rows that have no such text (which are
/// not `applied`). Rows are to be set in their order: weights.keep behind weights.
void set_option(const OptionRow& row, std::string_view text, CompileOptions& options);

/// The same texts for what `options` have; none where there is no such text.
std::vector<std::string> texts_of(const OptionRow& row, const CompileOptions& options);

/// What a target makes of options.
struct RecordedFor {
  bool generates_kernels = false, approximates_functions = false;
};
/// Names and values for a plan's manifest.
std::vector<std::pair<std::string, std::string>> recorded_options(const CompileOptions& options,
                                                                  RecordedFor target);

}  // namespace sinter::tools
