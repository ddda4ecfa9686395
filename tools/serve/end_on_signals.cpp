// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/end_on_signals.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> caught = 0;

[[noreturn]] void end_process() {
  std::fflush(nullptr);
  // No destructors: they would wait for what does not end.
  std::_Exit(EndOnSignals::kForcedExit);
}

}  // namespace

EndOnSignals::EndOnSignals() {
  sigemptyset(&signals_);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaddset(&signals_, kSignals[i]);
    // For threads that were there before, as NumPy's are: a signal may come to one of them.
    struct sigaction action {};
    action.sa_handler = [](int) { ++caught; };
    action.sa_flags = SA_RESTART;
    sigaction(kSignals[i], &action, &handlers_[i]);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_);  // threads that begin from here on, too
  // While models load, nobody is waiting for an answer.
  watch_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested())
      if (received()) end_process();
  });
}

EndOnSignals::~EndOnSignals() {
  watch_ = {};
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &handlers_[i], nullptr);
}

bool EndOnSignals::received() const {
  const timespec wait{0, 50'000'000};
  return caught.exchange(0) > 0 || sigtimedwait(&signals_, nullptr, &wait) > 0;
}

void EndOnSignals::run(const Actions& actions, std::chrono::seconds limit) {
  watch_ = std::jthread(
      [this, actions, limit](const std::stop_token& stop) { watch(actions, limit, stop); });
  actions.serve();
  has_aborted_.wait();  // `abort` may still be at it
}

void EndOnSignals::watch(const Actions& actions, std::chrono::seconds limit,
                         const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kALittle{1500}, kAtOnce{500};
  while (!received())
    if (stop.stop_requested()) return;
  actions.note("draining: requests that run may end; a second signal breaks them off");
  const auto deadline = Clock::now() + limit;
  bool is_second = false;
  while (!actions.drain() && Clock::now() < deadline && !is_second) is_second = received();
  actions.abort();
  has_aborted_.count_down();
  // Of the time that requests did not need, there is some to free what models take.
  const auto end = is_second ? Clock::now() + kAtOnce : std::max(Clock::now(), deadline) + kALittle;
  while (!stop.stop_requested()) {
    if (!received() && Clock::now() < end) continue;
    actions.note("what runs does not end: the process does");
    end_process();
  }
}

}  // namespace sinter::tools
