// What a verb prints: data on stdout, notes and progress on stderr.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/error.h>

namespace sinter::tools {

struct Console {
  bool json = false;
  bool quiet = false;
  /// Takes results in JSON mode in place of stdout, for one that is put together of several.
  std::function<void(const nlohmann::ordered_json& object)> collect;

  /// A line on stdout; nothing in JSON mode.
  void print(std::string_view line) const;
  /// The verb's result in JSON mode; nothing otherwise.
  void result(const nlohmann::ordered_json& object) const;
  /// A line on stderr, unless quiet.
  void note(std::string_view line) const;
  /// "error: ..." on stderr, and in JSON mode an object with "error" on stdout.
  void error(ErrorCode code, std::string_view message) const;
};

/// A progress bar on stderr, drawn only on a terminal and not if `console` is quiet.
class Progress {
 public:
  Progress(const Console& console, std::string label);
  ~Progress();
  void update(std::size_t done, std::size_t total);

 private:
  std::string label_;
  bool active_ = false;
  int last_percent_ = -1;
};

/// Rows of cells as aligned columns; the first row is the heading. Numbers (cells that start with a
/// digit, a sign or a dot) align right.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

/// "1.5 MB", with decimal multiples.
std::string format_bytes(double bytes);
/// "12.3 us", "4.56 ms", "1.20 s" from microseconds.
std::string format_time(double microseconds);

}  // namespace sinter::tools
