// SPDX-License-Identifier: Apache-2.0
// --help as text that 80 columns hold, and as data.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tools/cli/help/verb_help.h"

namespace sinter::tools {

inline constexpr std::size_t kHelpWidth = 80;

/// `text` in lines of `width` characters at most, the first one `indent` to the right already, the
/// others filled up to it. A word longer than a line has a line of its own.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width = kHelpWidth);

/// `general`: options of every verb, which come last.
std::string help_text(const VerbHelp& verb, const VerbHelp& general);
/// Of the command: its verbs, `general`'s options and examples, and `end`.
std::string help_text(const VerbHelp& general, std::span<const VerbHelp> verbs,
                      const std::string& end);

nlohmann::ordered_json to_json(const VerbHelp& verb);

}  // namespace sinter::tools
