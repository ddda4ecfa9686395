// SPDX-License-Identifier: Apache-2.0
// Re-times tactics that were chosen step by step, within the whole graph. No CUDA.
#pragma once

#include <functional>
#include <span>

#include "runtime/cuda/library_context.h"

namespace sinter::runtime {

/// Chooses tactics within the whole graph. Kernels that start early overlap with their neighbours,
/// but a step timed alone has none: the fastest steps need not make the fastest graph. First tries
/// all overlapping tactics at once, since a single one overlaps with nothing. Then tries, problem
/// by problem, every tactic that was not far behind alone. Keeps a change that is faster by more
/// than the timing noise. `time`: microseconds of all steps with these tactics. Returns the tactics
/// for all problems in `timed`.
TakenTactics refine_choices(std::span<const TimedChoice> timed,
                            const std::function<double(const TakenTactics&)>& time);

}  // namespace sinter::runtime
