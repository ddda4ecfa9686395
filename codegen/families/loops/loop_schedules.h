// SPDX-License-Identifier: Apache-2.0
// Chooses among the loop schedules.
#pragma once

#include <vector>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

const LoopSchedule& loop_schedule(const Schedule& schedule);

/// The requested schedule, if any. Otherwise: pointwise without reductions; column if adjacent
/// rows, not adjacent elements of a row, are contiguous in memory; row in all other cases. Throws
/// Error(kUnsupported) if none accepts the program, Error(kUsage) if the request's text is no
/// schedule or does not fit.
std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis);

/// Schedules that accept all sizes of `rule`, from choose_schedules(), under the same conditions:
/// `rule` first, then the nearest. They vary vector width, unroll, threads, rows of a block,
/// cluster size (if `clusters`), and whether rows are kept in registers. Bounded, unique and
/// deterministic.
std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters);

/// Schedules of this program in a kernel whose blocks of `threads` run several programs. Throws
/// Error(kUnsupported) for scans and scatters.
std::vector<Schedule> choose_shared(const ProgramAnalysis& analysis, int threads);

}  // namespace sinter::codegen
