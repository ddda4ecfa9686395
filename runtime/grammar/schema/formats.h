// SPDX-License-Identifier: Apache-2.0
// The formats of strings that grammars support.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/grammar/pattern/pattern.h"

namespace sinter::grammar {

/// Texts of a JSON Schema `format`, possibly a subset (no leap days, for example). Nullopt for an
/// unknown format.
std::optional<Pattern> format_pattern(std::string_view format);
/// Names of the known formats, for messages.
std::string format_names();

}  // namespace sinter::grammar
