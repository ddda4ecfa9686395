// SPDX-License-Identifier: Apache-2.0
// What work in the compiler tells while it goes on, and whether it goes on.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/compiler.h>

#include "tools/compiler/options/option_names.h"

namespace sinter::tools {

/// One call's diagnostics, its caller's callbacks and its stop token. Used by one thread at a time;
/// lives as long as the call.
class Reporter {
 public:
  /// Says nothing and is never stopped.
  Reporter() = default;
  /// `names`: what those who read call options.
  explicit Reporter(Monitor monitor, OptionNames names = OptionNames::kFlags)
      : monitor_(std::move(monitor)), names_(names) {}

  /// What was said before is not said again: calls that compile several times warn once.
  void add(Diagnostic diagnostic);
  void note(std::string_view code, std::string message);
  void warn(std::string_view code, std::string message);

  /// Tells how far a stage is; as check().
  void progress(std::string_view stage, std::size_t done, std::size_t total) const;
  /// Throws Error(kCancelled) if the caller has asked to stop.
  void check() const;

  /// A message of the compiler's for those who read this one's.
  std::string spelled(std::string_view message) const;

  /// For work that is a part of other work: says nothing, and stops with this.
  Reporter quiet() const;

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  Monitor monitor_;
  OptionNames names_ = OptionNames::kFlags;
  std::set<std::pair<std::string, std::string>> said_;  // codes and messages
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace sinter::tools
