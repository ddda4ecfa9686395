// SPDX-License-Identifier: Apache-2.0
// Cleans up on signals that end the process.
#pragma once

#include <array>
#include <csignal>

namespace sinter::tools {

/// During its lifetime, SIGINT, SIGTERM and SIGHUP delete temporary files before they end the
/// process. A file beyond the limit of sizes (SIGXFSZ) is an error of the write. Signals that are
/// handled or ignored already stay so.
class CleanUpOnSignals {
 public:
  CleanUpOnSignals();
  ~CleanUpOnSignals();
  CleanUpOnSignals(const CleanUpOnSignals&) = delete;
  CleanUpOnSignals& operator=(const CleanUpOnSignals&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
  std::array<struct sigaction, 4> previous_{};
};

}  // namespace sinter::tools
