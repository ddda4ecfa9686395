// SPDX-License-Identifier: Apache-2.0
// Untrusted text, such as a model's names, made safe for terminals and logs.
#pragma once

#include <string>
#include <string_view>

namespace sinter::ir {

/// `text` as one line without effect on a terminal: invalid UTF-8, controls, and characters that
/// reorder or break lines become escapes (\n, \x1b, \u202e).
std::string shown(std::string_view text);

/// The same for multi-line text: line ends and tabs stay.
std::string shown_lines(std::string_view text);

}  // namespace sinter::ir
