// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT, which always end the process.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <latch>
#include <thread>

namespace sinter::tools {

/// While it lives, SIGTERM and SIGINT are its own: before is_loaded() they end the process; then a
/// first one lets what runs end.
class EndOnSignals {
 public:
  /// The exit code where something had to be broken off with the process: as `timeout` has it.
  static constexpr int kForcedExit = 124;

  EndOnSignals();
  ~EndOnSignals();
  EndOnSignals(const EndOnSignals&) = delete;
  EndOnSignals& operator=(const EndOnSignals&) = delete;

  /// Clients may come: signals wait for run().
  void is_loaded() { watch_ = {}; }

  struct Actions {
    std::function<void()> serve;  // until `abort` has ended it
    /// Lets what runs end: is called again and again until it says that nothing runs.
    std::function<bool()> drain;
    std::function<void()> abort;  // breaks off what runs; does not wait for it
    std::function<void(const char*)> note;
  };
  /// Serves until a signal has come and what ran has ended, or `limit` has passed, or a second
  /// signal has come. What has not ended a little after that, here or before has_ended(), is ended
  /// with the process.
  void run(const Actions& actions, std::chrono::seconds limit);
  /// All is gone that could run on.
  void has_ended() { watch_ = {}; }

 private:
  /// Waits for 50 ms at most.
  bool received() const;
  void watch(const Actions& actions, std::chrono::seconds limit, const std::stop_token& stop);

  static constexpr std::array<int, 2> kSignals = {SIGTERM, SIGINT};
  sigset_t signals_{}, previous_{};
  std::array<struct sigaction, 2> handlers_{};
  std::latch has_aborted_{1};
  std::jthread watch_;
};

}  // namespace sinter::tools
