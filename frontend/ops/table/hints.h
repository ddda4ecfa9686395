// What to do about an operator that import does not know.
#pragma once

#include <string>
#include <string_view>

namespace sinter::frontend {

/// What to say behind "the operator is not known".
std::string hint(std::string_view domain, std::string_view name);
/// What a model can say instead of an operator whose result depends on data or chance; empty for
/// others.
std::string advice_of(std::string_view domain, std::string_view name);

}  // namespace sinter::frontend
