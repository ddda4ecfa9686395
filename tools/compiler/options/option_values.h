// SPDX-License-Identifier: Apache-2.0
// Converts option values by their rows: from command-line texts, and to manifest texts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/compile_options.h>

#include "tools/compiler/options/option_table.h"

namespace sinter::tools {

/// Sets an option from `text`: "on" for a flag; another value for a repeatable option. Throws
/// Error(kUsage) naming the flag, also for rows without a text form (not `applied`). Set rows in
/// their order: weights.keep after weights.
void set_option(const OptionRow& row, std::string_view text, CompileOptions& options);

/// The texts that set the values in `options`; empty for rows without a text form.
std::vector<std::string> texts_of(const OptionRow& row, const CompileOptions& options);

/// Properties of the target that determine what is recorded.
struct RecordedFor {
  bool generates_kernels = false, approximates_functions = false;
};
/// Names and values for a plan's manifest.
std::vector<std::pair<std::string, std::string>> recorded_options(const CompileOptions& options,
                                                                  RecordedFor target);

}  // namespace sinter::tools
