// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/reporter.h"

#include <utility>

namespace sinter::tools {

std::string Reporter::spelled(std::string_view message) const {
  return names_ == OptionNames::kFields ? with_fields(message) : std::string(message);
}

void Reporter::add(Diagnostic diagnostic) {
  diagnostic.message = spelled(diagnostic.message);
  diagnostic.hint = spelled(diagnostic.hint);
  if (!said_.emplace(diagnostic.code, diagnostic.message).second) return;
  diagnostics_.push_back(std::move(diagnostic));
  if (monitor_.on_diagnostic) monitor_.on_diagnostic(diagnostics_.back());
}

void Reporter::note(std::string_view code, std::string message) {
  add({Severity::kNote, std::string(code), std::move(message), "", "", {}, ""});
}

void Reporter::warn(std::string_view code, std::string message) {
  add({Severity::kWarning, std::string(code), std::move(message), "", "", {}, ""});
}

void Reporter::progress(std::string_view stage, std::size_t done, std::size_t total) const {
  check();
  if (monitor_.on_progress) monitor_.on_progress(stage, done, total);
}

void Reporter::check() const {
  if (monitor_.stop.stop_requested())
    throw Error(ErrorCode::kCancelled, "cancelled: the caller asked to stop");
}

Reporter Reporter::quiet() const {
  Monitor silent;
  silent.stop = monitor_.stop;
  return Reporter(std::move(silent), names_);
}

}  // namespace sinter::tools
