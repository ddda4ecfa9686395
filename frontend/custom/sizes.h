// SPDX-License-Identifier: Apache-2.0
// Sizes in definitions of operators: "floordiv(x[0] + 7, 8)".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ir/dim/dim.h"

namespace sinter::frontend {

/// What "name[i]" (`at` is i), "name.size" (`at` is -1) or "name" alone (`at` is -2) stands for;
/// nothing if there is none. Throws what it likes if there is something wrong with it.
using SizeNamed = std::function<std::optional<ir::Dim>(std::string_view name, int at)>;

/// The size that `text` says: integers, + - *, parentheses, floordiv, ceildiv, min and max of two,
/// and what `named` knows. Throws Error(kUsage) saying what is wrong with `text`.
ir::Dim parse_size(std::string_view text, const SizeNamed& named, const ir::Ranges& ranges);

}  // namespace sinter::frontend
