// SPDX-License-Identifier: Apache-2.0
// Reads definition files of operators (TOML).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/model/custom_operator.h"

namespace sinter::frontend {

/// Reads a definition file. Paths in it are relative to its folder. Throws Error(kUsage) naming the
/// file, the line and the key.
std::vector<CustomOperator> read_custom_operators(const std::string& path);
/// Parses a definition's text; errors call it `path`.
std::vector<CustomOperator> parse_custom_operators(std::string_view text, const std::string& path);

}  // namespace sinter::frontend
