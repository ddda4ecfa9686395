// SPDX-License-Identifier: Apache-2.0
// The targets of this build.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codegen/targets/target.h"

namespace sinter::codegen {

/// One for each folder of codegen/targets, by name; CMake generates this function.
std::span<const Target* const> targets();

/// Throws Error(kUsage) that lists the targets.
const Target& target_named(std::string_view name);

/// "cpu, cuda".
std::string target_names();

}  // namespace sinter::codegen
