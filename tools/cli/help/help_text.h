// SPDX-License-Identifier: Apache-2.0
// Formats --help for 80 columns.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tools/cli/help/verb_help.h"

namespace sinter::tools {

inline constexpr std::size_t kHelpWidth = 80;

/// Wraps `text` to lines of at most `width` characters. The first line starts at column `indent`,
/// the others are indented to it. A longer word gets its own line.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width = kHelpWidth);

/// Help of a verb; `general` has the options of every verb, which come last.
std::string help_text(const VerbHelp& verb, const VerbHelp& general);
/// Help of the command: its verbs, `general`'s options and examples, then `end`.
std::string help_text(const VerbHelp& general, std::span<const VerbHelp> verbs,
                      const std::string& end);

nlohmann::ordered_json to_json(const VerbHelp& verb);

}  // namespace sinter::tools
