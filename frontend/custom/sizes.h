// SPDX-License-Identifier: Apache-2.0
// Sizes in definitions of operators: "floordiv(x[0] + 7, 8)".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ir/dim/dim.h"

namespace sinter::frontend {

/// Resolves "name[i]" (`at` is i), "name.size" (`at` is -1) or "name" (`at` is -2); nullopt for an
/// unknown name. May throw for an invalid one.
using SizeNamed = std::function<std::optional<ir::Dim>(std::string_view name, int at)>;

/// Parses a size: integers, + - *, parentheses, floordiv, ceildiv, min and max of two, and the
/// names of `named`. Throws Error(kUsage) for an error in `text`.
ir::Dim parse_size(std::string_view text, const SizeNamed& named, const ir::Ranges& ranges);

}  // namespace sinter::frontend
