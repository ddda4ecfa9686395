// SPDX-License-Identifier: Apache-2.0
// Counts the allocations of this process.
#pragma once

#include <cstddef>

namespace sinter::testing {

/// False where a sanitizer has the allocation functions.
bool counts_allocations();
std::size_t allocations();

}  // namespace sinter::testing
