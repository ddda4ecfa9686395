#include "tools/cli/text/table.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "ir/text/shown.h"

namespace sinter::tools {

std::string format_table(Rows rows) {
  for (auto& row : rows)
    for (auto& cell : row) cell = ir::shown(cell);
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto is_number = [](const std::string& cell) {
    return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                             cell[0] == '-' || cell[0] == '+' || cell[0] == '.');
  };
  const auto right_aligned = [&](std::size_t column) {
    return rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) {
             return column >= row.size() || row[column].empty() || is_number(row[column]);
           });
  };
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += right_aligned(i) ? fmt::format("{:>{}}", row[i], widths[i])
                               : fmt::format("{:<{}}", row[i], widths[i]);
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
