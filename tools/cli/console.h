// SPDX-License-Identifier: Apache-2.0
// What a verb prints: data on stdout, notes and progress on stderr. What does something to a
// terminal is shown escaped in all of it; text of others that shall not begin a line, such as a
// model's names, goes through ir::shown first.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sinter/compiler.h>

namespace sinter::tools {

struct Console {
  bool json = false;
  bool quiet = false;
  bool wide = false;  // tables keep their width on a terminal, too
  /// Takes results in JSON mode in place of stdout, for one that is put together of several.
  std::function<void(const nlohmann::ordered_json& object)> collect;

  /// A line on stdout; nothing in JSON mode.
  void print(std::string_view line) const;
  template <typename First, typename... Rest>
  void print(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    print(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  /// Characters that a line of stdout has, of tables that are made to fit: the terminal's ($COLUMNS
  /// counts more); 0: as many as it takes, where stdout is no terminal or `wide` is asked for.
  std::size_t line_width() const;
  /// The verb's result in JSON mode; nothing otherwise.
  void result(const nlohmann::ordered_json& object) const;
  /// A line on stderr, unless quiet.
  void note(std::string_view line) const;
  /// "error: ..." on stderr, and in JSON mode an object with "error" on stdout.
  void error(ErrorCode code, std::string_view message) const;
  /// The same, in JSON mode with what is known of the nodes that it is about.
  void error(const CompileError& error) const;
  /// How far a stage is, and how long it will take: a bar on stderr, drawn only on a terminal and
  /// not if quiet. Whatever is printed next takes its place.
  void progress(std::string_view stage, std::size_t done, std::size_t total) const;

 private:
  void clear_bar() const;
  mutable std::string stage_;  // whose bar is drawn; empty: none is
  mutable int percent_ = -1;
  mutable std::chrono::steady_clock::time_point stage_start_;
};

/// " 12 s left", " 3 min left" of what has taken `seconds` for `done` of `total`; empty as long as
/// that says little.
std::string time_left(double seconds, std::size_t done, std::size_t total);

/// Writes what is left for stdout; says what was lost of it, or nothing.
std::string finish_output();

/// What a call of the compiler tells, on `console`, which must outlive it: diagnostics as notes,
/// progress as bars.
Monitor monitor_of(const Console& console);

}  // namespace sinter::tools
