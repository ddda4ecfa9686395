// Which JSON Schemas there are grammars for.
#pragma once

#include <string>
#include <string_view>

namespace sinter::grammar {

/// `text` as xgrammar shall read it: objects and arrays of which nothing is said are open. Throws
/// Error(kUsage) that names a keyword and where it is, if it restricts values and has no effect on
/// grammars, or contradicts its meaning.
std::string checked_schema(const std::string& text);

/// The same of each schema in a structural tag.
std::string checked_structural_tag(const std::string& text);

}  // namespace sinter::grammar
