#include "tools/cli/console.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace sinter::tools {

void Console::print(std::string_view line) const {
  clear_bar();
  if (!json) fmt::print("{}\n", line);
}

void Console::result(const nlohmann::ordered_json& object) const {
  clear_bar();
  if (!json) return;
  if (collect)
    collect(object);
  else
    // Names of a model need not be UTF-8, which JSON is.
    fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Console::note(std::string_view line) const {
  clear_bar();
  if (!quiet) fmt::print(stderr, "{}\n", line);
}

namespace {

void print_error(const nlohmann::ordered_json& error) {
  const nlohmann::ordered_json object = {{"error", error}};
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void Console::error(ErrorCode code, std::string_view message) const {
  clear_bar();
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", message);
  if (json) print_error({{"code", to_string(code)}, {"message", message}});
}

void Console::error(const CompileError& error) const {
  clear_bar();
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", error.what());
  if (!json) return;
  nlohmann::ordered_json object = {{"code", to_string(error.code())}, {"message", error.what()}};
  for (const Diagnostic& diagnostic : error.diagnostics())
    if (diagnostic.severity == Severity::kError && !diagnostic.node.empty())
      object["nodes"].push_back({{"node", diagnostic.node},
                                 {"operator", diagnostic.op},
                                 {"inputs", diagnostic.shapes},
                                 {"message", diagnostic.message},
                                 {"way_out", diagnostic.way_out}});
  print_error(object);
}

void Console::progress(std::string_view stage, std::size_t done, std::size_t total) const {
  if (quiet || total == 0 || isatty(STDERR_FILENO) == 0) return;
  const int percent = static_cast<int>(100 * done / total);
  if (percent == percent_ && stage == stage_) return;
  if (stage != stage_) clear_bar();
  stage_ = stage;
  percent_ = percent;
  constexpr int kWidth = 30;
  const auto filled = static_cast<std::size_t>(kWidth * percent / 100);
  fmt::print(stderr, "\r{} [{}{}] {}/{}", stage, std::string(filled, '#'),
             std::string(kWidth - filled, '.'), done, total);
  std::fflush(stderr);
}

void Console::clear_bar() const {
  if (!stage_.empty()) fmt::print(stderr, "\r\x1b[K");
  stage_.clear();
  percent_ = -1;
}

Monitor monitor_of(const Console& console) {
  Monitor monitor;
  monitor.on_diagnostic = [&console](const Diagnostic& diagnostic) {
    const char* prefix = diagnostic.severity == Severity::kWarning ? "warning: "
                         : diagnostic.code == "precision"          ? "precision: "
                                                                   : "";
    console.note(prefix + diagnostic.message);
  };
  monitor.on_progress = [&console](std::string_view stage, std::size_t done, std::size_t total) {
    console.progress(stage, done, total);
  };
  return monitor;
}

}  // namespace sinter::tools
