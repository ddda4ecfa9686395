// SPDX-License-Identifier: Apache-2.0
// Panels: the order of quantized weights that CPUs multiply (Quantization.panels in plan.fbs).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sinter::plan {

/// Rows of a panel.
inline constexpr std::int64_t kQuantPanelRows = 16;

/// Weights of n rows of k codes, in panels of 16 rows. A row's word of 32 bits has 4 codes of 8
/// bits, or 8 of 4 bits: byte b is element b, or element b in the low and b + 4 in the high half.
/// The words of 16 rows are adjacent: word u of row r is at ((r / 16) * units + u) * 16 + r % 16.
/// Codes of 16 bits, which are floats, are words themselves: element i of row r is at
/// ((r / 16) * 4 * units + i) * 16 + r % 16. Rows and elements that are not there are zeros.
///
/// Scales, zero points and offsets, one a group of a row, are [panel, group, 16]; zeros where there
/// is no row.
struct QuantPanelShape {
  int bits = 8;
  std::int64_t n = 0, k = 0, group = 1;

  std::int64_t panels() const { return (n + kQuantPanelRows - 1) / kQuantPanelRows; }
  /// Codes of a row's unit: a word, or four of 16 bits.
  std::int64_t depth() const { return bits == 4 ? 8 : 4; }
  /// Bytes of a row's unit.
  std::int64_t unit_bytes() const { return bits == 16 ? 8 : 4; }
  std::int64_t units() const { return (k + depth() - 1) / depth(); }
  std::int64_t groups() const { return k / group + (k % group != 0 ? 1 : 0); }
  /// Bytes of a row that is stored plainly: codes after each other.
  std::int64_t pitch() const { return bits == 4 ? k / 2 + k % 2 : k * (bits / 8); }
  std::int64_t value_bytes() const { return panels() * panel_bytes(); }
  std::int64_t panel_bytes() const { return units() * kQuantPanelRows * unit_bytes(); }
  /// Elements of scales, zero points or offsets.
  std::int64_t group_count() const { return panels() * groups() * kQuantPanelRows; }
};

/// Writes panel `panel` of plain rows to `to`, of panel_bytes().
void write_value_panel(const QuantPanelShape& shape, std::int64_t panel, const std::byte* rows,
                       std::byte* to);

/// Writes elements [n, groups] as [panel, group, 16].
template <typename T>
void write_group_panels(const QuantPanelShape& shape, const T* from, T* to) {
  const std::int64_t groups = shape.groups();
  for (std::int64_t first = 0; first < shape.n; first += kQuantPanelRows)
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t r = first; r < first + kQuantPanelRows; ++r)
        *to++ = r < shape.n ? from[r * groups + g] : T{};
}

}  // namespace sinter::plan
