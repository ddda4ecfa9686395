// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/panels/quant_panels.h"

#include <cstring>

namespace sinter::plan {
namespace {

/// Nibbles 0 to 3 to the low halves of bytes, 4 to 7 to the high ones.
std::uint32_t interleaved(std::uint32_t nibbles) {
  const auto spread = [](std::uint32_t four) {
    four = (four | four << 8) & 0x00ff00ffU;
    return (four | four << 4) & 0x0f0f0f0fU;
  };
  return spread(nibbles & 0xffffU) | spread(nibbles >> 16) << 4;
}

/// A panel of codes of 16 bits.
void write_wide_panel(const QuantPanelShape& shape, std::int64_t panel, const std::byte* rows,
                      std::byte* to) {
  std::memset(to, 0, static_cast<std::size_t>(shape.panel_bytes()));
  const std::int64_t first = panel * kQuantPanelRows,
                     end = std::min(first + kQuantPanelRows, shape.n);
  const auto* from = reinterpret_cast<const std::uint16_t*>(rows);
  auto* codes = reinterpret_cast<std::uint16_t*>(to);
  for (std::int64_t row = first; row < end; ++row)
    for (std::int64_t i = 0; i < shape.k; ++i)
      codes[i * kQuantPanelRows + row - first] = from[row * shape.k + i];
}

}  // namespace

void write_value_panel(const QuantPanelShape& shape, std::int64_t panel, const std::byte* rows,
                       std::byte* to) {
  if (shape.bits == 16) return write_wide_panel(shape, panel, rows, to);
  constexpr std::int64_t kWord = 4;
  const std::int64_t pitch = shape.pitch(), units = shape.units();
  for (std::int64_t r = 0; r < kQuantPanelRows; ++r) {
    const std::int64_t row = panel * kQuantPanelRows + r;
    const std::byte* from = rows + row * pitch;
    for (std::int64_t u = 0; u < units; ++u) {
      std::uint32_t word = 0;
      if (row < shape.n)
        std::memcpy(&word, from + u * kWord,
                    static_cast<std::size_t>(std::min(kWord, pitch - u * kWord)));
      if (shape.bits == 4) word = interleaved(word);
      std::memcpy(to + (u * kQuantPanelRows + r) * kWord, &word, sizeof word);
    }
  }
}

}  // namespace sinter::plan
