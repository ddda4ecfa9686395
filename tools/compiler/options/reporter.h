// SPDX-License-Identifier: Apache-2.0
// Reports a compiler call's progress and diagnostics, and stops it on request.
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

/// One call's diagnostics, callbacks and stop token. One thread at a time uses it; it lives as long
/// as the call.
class Reporter {
 public:
  /// Reports nothing and never stops.
  Reporter() = default;
  /// `names`: how messages name options.
  explicit Reporter(Monitor monitor, OptionNames names = OptionNames::kFlags)
      : monitor_(std::move(monitor)), names_(names) {}

  /// Drops duplicates: calls that compile several times warn once.
  void add(Diagnostic diagnostic);
  void note(std::string_view code, std::string message);
  void warn(std::string_view code, std::string message);

  /// Reports progress of a stage; throws as check().
  void progress(std::string_view stage, std::size_t done, std::size_t total) const;
  /// Throws Error(kCancelled) if the caller has asked to stop.
  void check() const;

  /// Converts the compiler's option names in a message for this reporter's reader.
  std::string spelled(std::string_view message) const;

  /// A reporter for nested work: reports nothing, and stops with this one.
  Reporter quiet() const;

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  Monitor monitor_;
  OptionNames names_ = OptionNames::kFlags;
  std::set<std::pair<std::string, std::string>> said_;  // codes and messages
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace sinter::tools
