// Text of others, such as a model's names, for terminals and logs.
#pragma once

#include <string>
#include <string_view>

namespace sinter::ir {

/// `text` as one line that does nothing to a terminal: what is not UTF-8, controls, and characters
/// that reorder or break lines become escapes (\n, \x1b, \u202e).
std::string shown(std::string_view text);

/// The same for text that has lines of its own: line ends and tabs stay.
std::string shown_lines(std::string_view text);

}  // namespace sinter::ir
