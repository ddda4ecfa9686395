// SPDX-License-Identifier: Apache-2.0
// Signals that end the process.
#pragma once

#include <array>
#include <csignal>

namespace sinter::tools {

/// While it lives, SIGINT, SIGTERM and SIGHUP take temporary files along before they end the
/// process, as far as they would have ended it: what has a handler, or is ignored, stays so.
class CleanUpOnSignals {
 public:
  CleanUpOnSignals();
  ~CleanUpOnSignals();
  CleanUpOnSignals(const CleanUpOnSignals&) = delete;
  CleanUpOnSignals& operator=(const CleanUpOnSignals&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> previous_{};
};

}  // namespace sinter::tools
