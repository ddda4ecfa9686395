#include "tools/cli/console.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace sinter::tools {

void Console::print(std::string_view line) const {
  if (!json) fmt::print("{}\n", line);
}

void Console::result(const nlohmann::ordered_json& object) const {
  if (!json) return;
  if (collect)
    collect(object);
  else
    fmt::print("{}\n", object.dump(2));
}

void Console::note(std::string_view line) const {
  if (!quiet) fmt::print(stderr, "{}\n", line);
}

void Console::error(ErrorCode code, std::string_view message) const {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", message);
  if (json) {
    nlohmann::ordered_json object;
    object["error"] = {{"code", to_string(code)}, {"message", message}};
    fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

Progress::Progress(const Console& console, std::string label)
    : label_(std::move(label)), active_(!console.quiet && isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (active_ && last_percent_ >= 0) fmt::print(stderr, "\r\x1b[K");
}

void Progress::update(std::size_t done, std::size_t total) {
  if (!active_ || total == 0) return;
  const int percent = static_cast<int>(100 * done / total);
  if (percent == last_percent_) return;
  last_percent_ = percent;
  constexpr int kWidth = 30;
  const auto filled = static_cast<std::size_t>(kWidth * percent / 100);
  fmt::print(stderr, "\r{} [{}{}] {}/{}", label_, std::string(filled, '#'),
             std::string(kWidth - filled, '.'), done, total);
  std::fflush(stderr);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
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
