// SPDX-License-Identifier: Apache-2.0
// The GIL, taken and given so that the end of the interpreter harms no thread.
//
// Once the interpreter ends, a thread that asks for the GIL is ended by Python: the stack is
// unwound (pthread_exit), which aborts the process where a destructor or a `catch (...)` is in the
// way. So before that (atexit) a gate is closed: threads but the main one that want the GIL
// afterwards wait for ever, as Python 3.14's own do, and end with the process.
#pragma once

#include <nanobind/nanobind.h>

namespace sinter::python {

namespace nb = nanobind;

/// Releases the GIL for its lifetime; the thread must hold it.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
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
