// The kernel families of this build.
#pragma once

#include <span>
#include <string>

#include "codegen/families/family.h"

namespace sinter::codegen {

/// One for each folder of codegen/families; regions are offered in this order. CMake writes this
/// function.
std::span<const KernelFamily* const> families();

/// The first family that takes the region. Throws Error(kUnsupported) with every family's reason.
const KernelFamily& family_of(const Region& region, const Target& target);

/// Throws Error(kUsage) if no family has schedules that begin as `text` does, saying which there
/// are.
void check_schedule(const std::string& text);

}  // namespace sinter::codegen
