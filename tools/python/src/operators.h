// SPDX-License-Identifier: Apache-2.0
// Libraries of host operators, as pysinter._core.OperatorLibrary.
#pragma once

#include <nanobind/nanobind.h>
#include <sinter/operators.h>

namespace sinter::python {

namespace nb = nanobind;

void bind_operators(nb::module_& module);

}  // namespace sinter::python
