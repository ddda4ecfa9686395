// SPDX-License-Identifier: Apache-2.0
// Measures this machine's arithmetic and memory rates.
#pragma once

#include <sinter/profile.h>

namespace sinter::runtime::cpu {

/// Measures with a team of `threads` threads: a large copy, an empty team, GEMMs by oneDNN. Throws
/// Error(kOutOfMemory).
MachineRates measure_machine(int threads);

}  // namespace sinter::runtime::cpu
