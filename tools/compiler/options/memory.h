// SPDX-License-Identifier: Apache-2.0
// The memory limit of a compilation.
#pragma once

#include <cstdint>

#include <sinter/compiler.h>

namespace sinter::tools {

/// CompileOptions::max_compile_memory in bytes; by default half of the memory available to this
/// process on this machine and in its control groups.
std::int64_t memory_limit(const CompileOptions& options);

}  // namespace sinter::tools
