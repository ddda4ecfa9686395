// What to do about an operator that import does not know.
#pragma once

#include <string>
#include <string_view>

namespace sinter::frontend {

/// What to say behind "the operator is not known".
std::string way_out(std::string_view domain, std::string_view name);

}  // namespace sinter::frontend
