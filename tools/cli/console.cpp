// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/console.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include <fmt/format.h>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ir/text/shown.h"

namespace sinter::tools {

namespace {

/// Write errors are sticky on the stream; finish_output reports them at the end.
void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void put_json(const nlohmann::ordered_json& object) {
  // A model's names may be invalid UTF-8, which JSON does not allow.
  put(stdout, object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

/// Indents all lines but the first by two, so that none looks like a separate message.
std::string as_message(std::string_view text) {
  std::string result;
  for (const char c : ir::shown_lines(text)) {
    if (!result.empty() && result.back() == '\n' && c != ' ') result += "  ";
    result += c;
  }
  return result;
}

/// Errors of usage and of input files fit on one line, whatever names they contain. A compiler's
/// log, or a list of unsupported nodes, has several lines.
std::string error_text(ErrorCode code, std::string_view message) {
  const bool is_line = code == ErrorCode::kUsage || code == ErrorCode::kInvalidModel ||
                       code == ErrorCode::kInvalidPlan;
  return fmt::format("error: {}\n", is_line ? ir::shown(message) : as_message(message));
}

}  // namespace

void Console::print(std::string_view line) const {
  clear_bar();
  if (!json) put(stdout, ir::shown_lines(line) + "\n");
}

void Console::result(const nlohmann::ordered_json& object) const {
  clear_bar();
  if (!json) return;
  if (collect)
    collect(object);
  else
    put_json(object);
}

void Console::note(std::string_view line) const {
  clear_bar();
  if (!quiet) put(stderr, as_message(line) + "\n");
}

void Console::error(ErrorCode code, std::string_view message) const {
  clear_bar();
  std::fflush(stdout);
  put(stderr, error_text(code, message));
  if (json) put_json({{"error", {{"code", to_string(code)}, {"message", message}}}});
}

void Console::error(const CompileError& error) const {
  clear_bar();
  std::fflush(stdout);
  put(stderr, error_text(error.code(), error.what()));
  if (!json) return;
  nlohmann::ordered_json object = {{"code", to_string(error.code())}, {"message", error.what()}};
  for (const Diagnostic& diagnostic : error.diagnostics())
    if (diagnostic.severity == Severity::kError && !diagnostic.node.empty())
      object["nodes"].push_back({{"node", diagnostic.node},
                                 {"operator", diagnostic.op},
                                 {"inputs", diagnostic.shapes},
                                 {"message", diagnostic.message},
                                 {"hint", diagnostic.hint}});
  put_json({{"error", object}});
}

void Console::progress(std::string_view stage, std::size_t done, std::size_t total) const {
  if (quiet || total == 0 || isatty(STDERR_FILENO) == 0) return;
  const int percent = static_cast<int>(100 * done / total);
  if (percent == percent_ && stage == stage_) return;
  const auto now = std::chrono::steady_clock::now();
  if (stage != stage_) {
    clear_bar();
    stage_start_ = now;
  }
  stage_ = stage;
  percent_ = percent;
  constexpr int kWidth = 30;
  const auto filled = static_cast<std::size_t>(kWidth * percent / 100);
  const double seconds = std::chrono::duration<double>(now - stage_start_).count();
  put(stderr,
      fmt::format("\r{} [{}{}] {}/{}{}\x1b[K", stage, std::string(filled, '#'),
                  std::string(kWidth - filled, '.'), done, total, time_left(seconds, done, total)));
  std::fflush(stderr);
}

void Console::clear_bar() const {
  if (!stage_.empty()) put(stderr, "\r\x1b[K");
  stage_.clear();
  percent_ = -1;
}

std::size_t Console::line_width() const {
  if (wide || json || isatty(STDOUT_FILENO) == 0) return 0;
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long asked = std::strtol(columns, nullptr, 10); asked > 0)
      return static_cast<std::size_t>(asked);
  struct winsize size {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string time_left(double seconds, std::size_t done, std::size_t total) {
  constexpr double kLeast = 1, kMinutes = 100;
  if (done == 0 || done >= total || seconds < kLeast) return "";
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  return left < kMinutes ? fmt::format(" {:.0f} s left", left)
                         : fmt::format(" {:.0f} min left", left / 60);
}

std::string finish_output() {
  errno = 0;
  std::cout.flush();
  const bool is_whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  const int cause = errno;
  if (is_whole) return "";
  // Resets the streams for further calls in this process.
  __fpurge(stdout);
  std::clearerr(stdout);
  std::cout.clear();
  return fmt::format("standard output cannot be written{}{}", cause == 0 ? "" : ": ",
                     cause == 0 ? "" : std::strerror(cause));
}

Monitor monitor_of(const Console& console) {
  Monitor monitor;
  monitor.on_diagnostic = [&console](const Diagnostic& diagnostic) {
    const char* prefix = diagnostic.severity == Severity::kWarning ? "warning: "
                         : diagnostic.code == "precision"          ? "precision: "
                                                                   : "";
    console.note(prefix + ir::shown(diagnostic.message));
  };
  monitor.on_progress = [&console](std::string_view stage, std::size_t done, std::size_t total) {
    console.progress(stage, done, total);
  };
  return monitor;
}

}  // namespace sinter::tools
