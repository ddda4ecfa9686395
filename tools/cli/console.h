// SPDX-License-Identifier: Apache-2.0
// Output of a verb: data on stdout, notes and progress on stderr. Escapes terminal control
// characters everywhere. Untrusted text that must not begin a line, such as a model's names, goes
// through ir::shown first.
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
  bool wide = false;  // tables keep their full width on a terminal
  /// Receives JSON results instead of stdout, for callers that combine several.
  std::function<void(const nlohmann::ordered_json& object)> collect;

  /// Prints a line on stdout; no effect in JSON mode.
  void print(std::string_view line) const;
  template <typename First, typename... Rest>
  void print(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    print(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  /// Line width for tables on stdout: the terminal's ($COLUMNS takes precedence); 0: unlimited, if
  /// stdout is no terminal or with `wide`.
  std::size_t line_width() const;
  /// Prints the verb's result in JSON mode; otherwise no effect.
  void result(const nlohmann::ordered_json& object) const;
  /// Prints a line on stderr, unless quiet.
  void note(std::string_view line) const;
  /// Prints "error: ..." on stderr and, in JSON mode, an object with "error" on stdout.
  void error(ErrorCode code, std::string_view message) const;
  /// The same; in JSON mode includes the affected nodes.
  void error(const CompileError& error) const;
  /// Draws a progress bar with the remaining time on stderr, only on a terminal and unless quiet.
  /// The next output replaces it.
  void progress(std::string_view stage, std::size_t done, std::size_t total) const;

 private:
  void clear_bar() const;
  mutable std::string stage_;  // stage of the visible bar; empty: none
  mutable int percent_ = -1;
  mutable std::chrono::steady_clock::time_point stage_start_;
};

/// Remaining time, " 12 s left" or " 3 min left", estimated from `seconds` for `done` of `total`;
/// empty while the estimate is unreliable.
std::string time_left(double seconds, std::size_t done, std::size_t total);

/// Flushes stdout; returns a description of lost output, or an empty string.
std::string finish_output();

/// Prints a compiler call's diagnostics as notes and its progress as bars on `console`, which must
/// outlive it.
Monitor monitor_of(const Console& console);

}  // namespace sinter::tools
