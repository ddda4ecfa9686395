// SPDX-License-Identifier: Apache-2.0
// Steps far below what bounds them, and forms of their operators that would be faster.
#pragma once

#include <string>

#include <sinter/compiler.h>

namespace sinter::tools {

/// Which form of the step's operators, or which option, would be faster; empty if none is known.
std::string faster_form(const StepTime& step, const MachineRates& rates);

}  // namespace sinter::tools
