// SPDX-License-Identifier: Apache-2.0
// Cleans up on signals that end the process.
#pragma once

#include <array>
#include <csignal>

namespace sinter::tools {

/// During its lifetime, SIGINT, SIGTERM and SIGHUP delete temporary files before they end the
/// process. Signals that are handled or ignored already stay so.
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
