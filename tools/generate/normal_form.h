// Unicode's normal form C, as far as text that has it already needs it.
#pragma once

#include <optional>
#include <string_view>

namespace sinter::tools {

/// The first character of `text` (UTF-8) that normal form C may change, move or join with the one
/// before it. Text without any is in that form: accented letters as keyboards give them are one
/// character each.
std::optional<char32_t> first_to_compose(std::string_view text);

}  // namespace sinter::tools
