// SPDX-License-Identifier: Apache-2.0
// What this machine's processor can do, measured.
#pragma once

#include <sinter/profile.h>

namespace sinter::runtime::cpu {

/// Measures with a team of `threads` threads: a large copy, an empty team, products by oneDNN.
/// Throws Error(kOutOfMemory).
MachineRates measure_machine(int threads);

}  // namespace sinter::runtime::cpu
