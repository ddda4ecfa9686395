// The choice among the schedules of loops.
#pragma once

#include <vector>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

const LoopSchedule& loop_schedule(const Schedule& schedule);

/// The one that the request asks for; else picks the kind: pointwise without reductions; columns
/// where neighbouring rows, not neighbouring elements of a row, lie next to each other in memory;
/// else rows. Throws Error(kUnsupported) if none takes the program, Error(kUsage) if the request's
/// text is no schedule, or none for the program.
std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis);

/// Schedules that take all sizes that `rule`, one of choose_schedules, takes, and under the same
/// conditions: `rule` first, then its neighbours, the nearest first: other vectors, vectors of a
/// thread, threads, rows of a block, blocks of a cluster (if `clusters`), registers held or not.
/// Bounded, without repetition, always the same.
std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters);

/// For a kernel whose blocks of `threads` do the work of several programs: this one's. Throws
/// Error(kUnsupported) for scans and scatters.
std::vector<Schedule> choose_shared(const ProgramAnalysis& analysis, int threads);

}  // namespace sinter::codegen
