// SPDX-License-Identifier: Apache-2.0
// Choices between a loaded value and a constant by loop indices (triangles, causal masks) as loads
// with a guard, which copy runs of elements and compute nothing.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/tiles/tile_loops.h"

namespace sinter::runtime::cpu {

/// A program in which such choices are loads of `accesses`, copies of those that were chosen from.
struct GuardedProgram {
  plan::fb::LoopProgramT program;
  std::vector<GuardedAccess> accesses;
};

/// Nullopt if the program has no such choice.
std::optional<GuardedProgram> with_guarded_loads(const plan::fb::LoopProgramT& program,
                                                 std::span<const std::int64_t> expressions);

}  // namespace sinter::runtime::cpu
