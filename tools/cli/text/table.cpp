// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text/table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "ir/text/shown.h"

namespace sinter::tools {

namespace {

// Minimum width of a narrowed column, to stay readable.
constexpr std::size_t kLeastWidth = 12;
constexpr std::size_t kGap = 2;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

/// Number of UTF-8 characters.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

/// The first `count` characters.
std::string_view first(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (at < text.size() && (count > 0 || !begins_character(text[at])))
    if (begins_character(text[at++])) --count;
  return text.substr(0, at);
}

/// Shortens `text` to at most `most` characters, in the middle or at the end.
std::string elide(const std::string& text, std::size_t most, bool in_the_middle) {
  const std::size_t width = width_of(text);
  if (width <= most) return text;
  if (!in_the_middle) return std::string(first(text, most - 1)) + "…";
  const std::size_t front = (most - 1) / 2, back = most - 1 - front;
  const std::string_view head = first(text, width - back);
  return std::string(first(text, front)) + "…" + text.substr(head.size());
}

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

/// Shrinks the widest text column repeatedly until a line fits, or all are at their minimum.
void narrow(std::vector<std::size_t>& widths, const std::vector<bool>& is_text, std::size_t most) {
  std::size_t all = widths.empty() ? 0 : kGap * (widths.size() - 1);
  for (const std::size_t width : widths) all += width;
  for (; all > most; --all) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (is_text[i] && widths[i] > kLeastWidth &&
          (widest == widths.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

}  // namespace

std::string format_table(Rows rows, std::size_t most) {
  for (auto& row : rows)
    for (auto& cell : row) cell = ir::shown(cell);
  const auto is_number = [](const std::string& cell) {
    return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                             cell[0] == '-' || cell[0] == '+' || cell[0] == '.');
  };
  std::vector<std::size_t> widths = widths_of(rows);
  std::vector<bool> aligns_right(widths.size()), is_text(widths.size());
  for (std::size_t column = 0; column < widths.size(); ++column) {
    aligns_right[column] =
        rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) {
          return column >= row.size() || row[column].empty() || is_number(row[column]);
        });
    // By width, since symbolic sizes are expressions that may start like numbers or names.
    is_text[column] = widths[column] > kLeastWidth;
  }
  if (most > 0) narrow(widths, is_text, most);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = elide(row[i], widths[i], i == 0);
      const std::string pad(widths[i] - width_of(cell), ' ');
      if (i > 0) line += std::string(kGap, ' ');
      line += aligns_right[i] ? pad + cell : cell + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string format_bytes(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string format_time(double microseconds) {
  if (microseconds < 1e3) return fmt::format("{:.1f} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.2f} ms", microseconds / 1e3);
  return fmt::format("{:.2f} s", microseconds / 1e6);
}

}  // namespace sinter::tools
