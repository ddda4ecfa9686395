// The libraries of arrays that the extension knows.
#pragma once

#include <nanobind/nanobind.h>

namespace sinter::python {

namespace nb = nanobind;

/// Whose arrays a call was given, and gives back.
enum class Library { kNumpy, kTorch, kCupy };

}  // namespace sinter::python
