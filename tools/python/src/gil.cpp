// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace sinter::python {
namespace {

struct Gate {
  std::atomic<bool> is_closed = false;
  std::atomic<int> asking = 0;     // threads between enter() and the GIL
  std::atomic<int> computing = 0;  // threads that have released it
  std::thread::id main;
};
// Never destroyed: threads that never end read it.
Gate& gate() {
  static Gate* const one = new Gate;
  return *one;
}

/// Whether this thread may request the GIL; if so, leave() must follow.
bool enter() {
  Gate& own = gate();
  own.asking.fetch_add(1);
  if (!own.is_closed.load() || std::this_thread::get_id() == own.main) return true;
  own.asking.fetch_sub(1);
  return false;
}
void leave() { gate().asking.fetch_sub(1); }

void enter_or_wait() {
  if (enter()) return;
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

GilReleased::GilReleased() {
  gate().computing.fetch_add(1);
  state_ = PyEval_SaveThread();
}

GilReleased::~GilReleased() {
  gate().computing.fetch_sub(1);
  enter_or_wait();
  PyEval_RestoreThread(state_);
  leave();
}

GilHeld::GilHeld() {
  enter_or_wait();
  state_ = PyGILState_Ensure();
  leave();
}

GilIfOpen::GilIfOpen() {
  if (!Py_IsInitialized() || !enter()) return;
  state_ = PyGILState_Ensure();
  leave();
  is_held_ = true;
}

void close_gil() {
  // Some calls wait for what never comes.
  constexpr std::chrono::milliseconds kPatience(500);
  Gate& own = gate();
  own.main = std::this_thread::get_id();
  own.is_closed.store(true);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (own.asking.load() > 0 ||
         (own.computing.load() > 0 && std::chrono::steady_clock::now() < until)) {
    PyThreadState* const state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    PyEval_RestoreThread(state);
  }
}

}  // namespace sinter::python
