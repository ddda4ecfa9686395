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

/// Without the GIL while it lives; the thread has it before and behind.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// With the GIL while it lives, on a thread of Python's that has released it.
class GilHeld {
 public:
  GilHeld();
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

/// The same on any thread, if the interpreter goes on: false once it ends. Python's objects are
/// left alone then.
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

/// By the main thread, with the GIL: when it returns, no other thread is within the calls above.
void close_gil();

}  // namespace sinter::python
