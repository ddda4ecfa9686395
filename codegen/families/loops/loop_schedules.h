// The schedules of loops, and the choice among them.
#pragma once

#include <span>
#include <vector>

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

std::span<const LoopSchedule* const> loop_schedules();
const LoopSchedule& loop_schedule(Family family);

/// The one that the request asks for; else picks the family: pointwise without reductions; columns
/// where neighbouring rows, not neighbouring elements of a row, lie next to each other in memory;
/// else rows. Throws Error(kUnsupported) if none takes the program.
std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis);

/// Schedules that take all sizes that `rule`, one of choose_schedules, takes, and under the same
/// conditions: `rule` first, then its neighbours, the nearest first: other vectors, vectors of a
/// thread, threads, rows of a block, blocks of a cluster (if `clusters`), registers held or not.
/// Bounded, without repetition, always the same.
std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters);

}  // namespace sinter::codegen
