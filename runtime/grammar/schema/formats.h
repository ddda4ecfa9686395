// SPDX-License-Identifier: Apache-2.0
// Formats of strings that grammars are made of.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/grammar/pattern/pattern.h"

namespace sinter::grammar {

/// Texts that have `format` of JSON Schema (some of them: no leap days, say). Nothing for a format
/// that is not known.
std::optional<Pattern> format_pattern(std::string_view format);
/// Their names, for messages.
std::string format_names();

}  // namespace sinter::grammar
