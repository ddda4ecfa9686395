// SPDX-License-Identifier: Apache-2.0
// Signals end the process, whatever runs.
#include "tools/serve/end_on_signals.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace sinter::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ExitedWithCode;
using tools::EndOnSignals;

void raise_soon(int count) {
  std::thread([count] {
    for (int i = 0; i < count; ++i) {
      std::this_thread::sleep_for(milliseconds(200));
      kill(getpid(), SIGTERM);
    }
  }).detach();
}

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(seconds(1));
}

/// Serves something that ends when it is aborted, if `ends`, and takes `more` to be freed.
[[noreturn]] void serve(int signals, seconds limit, bool is_drained, bool ends,
                        seconds more = seconds(0)) {
  EndOnSignals guard;
  guard.is_loaded();
  std::atomic<bool> is_aborted = false;
  raise_soon(signals);
  guard.run({.serve =
                 [&] {
                   while (!ends || !is_aborted) std::this_thread::sleep_for(milliseconds(10));
                 },
             .drain = [&] { return is_drained; },
             .abort = [&] { is_aborted = true; },
             .note = [](const char*) {}},
            limit);
  std::this_thread::sleep_for(more);
  guard.has_ended();
  std::_Exit(0);
}

class EndOnSignalsDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EndOnSignalsDeathTest, WhatEndsInTimeEndsInOrder) {
  EXPECT_EXIT(serve(1, seconds(60), true, true), ExitedWithCode(0), "");
  EXPECT_EXIT(serve(1, seconds(1), false, true), ExitedWithCode(0), "");
  EXPECT_EXIT(serve(2, seconds(60), false, true), ExitedWithCode(0), "");
  // Of the time that requests left.
  EXPECT_EXIT(serve(1, seconds(60), true, true, seconds(3)), ExitedWithCode(0), "");
}

TEST_F(EndOnSignalsDeathTest, WhatDoesNotIsEndedWithTheProcess) {
  EXPECT_EXIT(serve(1, seconds(0), false, false), ExitedWithCode(EndOnSignals::kForcedExit), "");
  EXPECT_EXIT(serve(2, seconds(60), false, false), ExitedWithCode(EndOnSignals::kForcedExit), "");
}

TEST_F(EndOnSignalsDeathTest, LoadingIsBrokenOff) {
  const auto load = [] {
    const EndOnSignals guard;
    raise_soon(1);
    hang();
  };
  EXPECT_EXIT(load(), ExitedWithCode(EndOnSignals::kForcedExit), "");
}

}  // namespace
}  // namespace sinter::tests
