// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/memory/free_memory.h"

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::runtime {

std::string format_bytes(std::uint64_t bytes) {
  constexpr double kKiB = 1024;
  const auto value = static_cast<double>(bytes);
  if (value >= kKiB * kKiB * kKiB) return fmt::format("{:.2f} GiB", value / (kKiB * kKiB * kKiB));
  if (value >= kKiB * kKiB) return fmt::format("{:.1f} MiB", value / (kKiB * kKiB));
  if (value >= 10 * kKiB) return fmt::format("{:.1f} KiB", value / kKiB);
  return fmt::format("{} bytes", bytes);
}

void require_free_memory(const graphs::Context& context, std::uint64_t bytes,
                         const std::string& account) {
  const graphs::MemoryInfo memory = context.memory();
  if (bytes <= memory.free_bytes) return;
  throw Error(
      ErrorCode::kOutOfMemory,
      fmt::format("GPU {} ({}) has too little memory: {} are needed ({}), {} of {} are free",
                  context.properties().index, context.properties().name, format_bytes(bytes),
                  account, format_bytes(memory.free_bytes), format_bytes(memory.total_bytes)));
}

}  // namespace sinter::runtime
