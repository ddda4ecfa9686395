// SPDX-License-Identifier: Apache-2.0
// Checks a GPU's free memory before an allocation.
#pragma once

#include <cstdint>
#include <string>

#include "graphs/device.h"

namespace sinter::runtime {

/// Throws Error(kOutOfMemory) with the text `account` if the GPU has fewer than `bytes` free.
void require_free_memory(const graphs::Context& context, std::uint64_t bytes,
                         const std::string& account);
/// "1.50 GiB", "3.0 MiB", "512 bytes".
std::string format_bytes(std::uint64_t bytes);

}  // namespace sinter::runtime
