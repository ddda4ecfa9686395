// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/request_id.h"

#include <atomic>
#include <cstdint>
#include <random>

#include <fmt/format.h>

namespace sinter::tools {

std::string new_id(std::string_view prefix) {
  static std::atomic<std::uint64_t> number = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  return fmt::format("{}{:016x}", prefix, number.fetch_add(1));
}

}  // namespace sinter::tools
