// SPDX-License-Identifier: Apache-2.0
// The kernel families of this build.
#pragma once

#include <span>
#include <string>

#include "codegen/families/family.h"

namespace sinter::codegen {

/// One for each folder of codegen/families, in the order in which regions are offered. CMake
/// generates this function.
std::span<const KernelFamily* const> families();

/// The first family that takes the region. Throws Error(kUnsupported) with every family's reason.
const KernelFamily& family_of(const Region& region, const Target& target);

/// Throws Error(kUsage), which lists the schedules, if `text` begins like none of them.
void check_schedule(const std::string& text);

}  // namespace sinter::codegen
