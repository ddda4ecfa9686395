// SPDX-License-Identifier: Apache-2.0
// Acquires and releases the GIL safely at the interpreter's end.
//
// Once the interpreter ends, Python terminates a thread that requests the GIL: it unwinds the stack
// (pthread_exit), which aborts the process at a destructor or a `catch (...)`. So an atexit handler
// closes a gate first. Threads other than the main one that request the GIL afterwards wait
// forever, as in Python 3.14, and end with the process. The handler waits a moment for calls that
// compute: the code that oneDNN has compiled is freed when the process ends.
#pragma once

#include <nanobind/nanobind.h>

namespace sinter::python {

namespace nb = nanobind;

/// Releases the GIL for its lifetime; the thread must hold it.
class GilReleased {
 public:
  GilReleased();
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the GIL for its lifetime, on a Python thread that has released it.
class GilHeld {
 public:
  GilHeld();
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

/// The same on any thread; false if the interpreter is ending. Python objects must not be touched
/// then.
class GilIfOpen {
 public:
  GilIfOpen();
  ~GilIfOpen() {
    if (is_held_) PyGILState_Release(state_);
  }
  GilIfOpen(const GilIfOpen&) = delete;
  GilIfOpen& operator=(const GilIfOpen&) = delete;

  explicit operator bool() const { return is_held_; }

 private:
  bool is_held_ = false;
  PyGILState_STATE state_{};
};

/// Called by the main thread with the GIL: afterwards no other thread is inside the classes above.
void close_gil();

}  // namespace sinter::python
