// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/memory.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <unistd.h>

#include "runtime/format_error.h"
#include "runtime/limits/limits.h"

namespace sinter::tools {

std::int64_t memory_limit(const CompileOptions& options) {
  constexpr std::uint64_t kMost = INT64_MAX;
  if (options.max_compile_memory > 0)
    return static_cast<std::int64_t>(std::min(options.max_compile_memory, kMost));
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  std::uint64_t memory = kMost;
  if (pages > 0 && size > 0)
    memory = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size);
  if (const auto quota = runtime::limits::memory_quota()) memory = std::min(memory, *quota);
  return static_cast<std::int64_t>(memory / 2);
}

}  // namespace sinter::tools

namespace sinter {

std::uint64_t parse_bytes(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  std::string_view digits = text;
  double unit = 1;
  if (digits.size() > 1 && digits.back() == 'B' &&
      kUnits.find(digits[digits.size() - 2]) != std::string_view::npos)
    digits.remove_suffix(1);
  if (!digits.empty())
    if (const auto power = kUnits.find(digits.back()); power != std::string_view::npos) {
      digits.remove_suffix(1);
      for (std::size_t i = 0; i <= power; ++i) unit *= 1024;
    }
  double count = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), count,
                                              std::chars_format::fixed);
  if (digits.empty() || problem != std::errc() || end != digits.data() + digits.size() ||
      !(count * unit >= 1 && count * unit <= 0x1p62))
    throw usage_error("'{}' is no number of bytes: write 4096, 512M or 1.5G", text);
  return static_cast<std::uint64_t>(count * unit);
}

}  // namespace sinter
