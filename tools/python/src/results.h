// SPDX-License-Identifier: Apache-2.0
// What the compiler tells, as dictionaries with the names of the C++ members. pysinter/_results.py
// makes dataclasses of them.
#pragma once

#include <nanobind/nanobind.h>
#include <sinter/compiler.h>

namespace sinter::python {

nanobind::dict to_python(const Diagnostic& diagnostic);
nanobind::dict to_python(const Accuracy& accuracy);
nanobind::dict to_python(const CompareResult& result);
nanobind::dict to_python(const ProfileReport& report);
/// Excludes the plan's bytes.
nanobind::dict to_python(const CompileResult& result);

}  // namespace sinter::python
