// SPDX-License-Identifier: Apache-2.0
// Tactics that were chosen one step at a time, tried again in their places. No CUDA.
#pragma once

#include <functional>
#include <span>

#include "runtime/cuda/library_context.h"

namespace sinter::runtime {

/// Kernels that start early overlap with their neighbours, and a step timed alone waits for none:
/// the sum of the fastest steps need not be the fastest graph. Tries all that overlap at once,
/// since one of them alone overlaps with nothing, then every tactic of every problem that was
/// not far behind alone, one problem after the other, and keeps what makes the whole faster by more
/// than the timer's noise. `time`: microseconds of all steps with these tactics. Returns the
/// tactics to take, of all problems in `timed`.
TakenTactics refine_choices(std::span<const TimedChoice> timed,
                            const std::function<double(const TakenTactics&)>& time);

}  // namespace sinter::runtime
