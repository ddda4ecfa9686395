// SPDX-License-Identifier: Apache-2.0
// Shell completion, generated from the declarations of verbs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/cli/help/verb_help.h"

namespace sinter::tools {

/// Supported shells: "bash", "zsh", "fish".
const std::vector<std::string>& shells();

/// The completion script for `shell`: verbs, options, their values, files, and after `help` the
/// `topics`.
std::string completion_for(const std::string& shell, const VerbHelp& general,
                           std::span<const VerbHelp> verbs, std::span<const std::string> topics);

}  // namespace sinter::tools
