// SPDX-License-Identifier: Apache-2.0
// How much memory compiling may take.
#pragma once

#include <cstdint>

#include <sinter/compiler.h>

namespace sinter::tools {

/// CompileOptions::max_compile_memory in bytes; without one half of what this process may use, by
/// the machine and its control groups.
std::int64_t memory_limit(const CompileOptions& options);

}  // namespace sinter::tools
