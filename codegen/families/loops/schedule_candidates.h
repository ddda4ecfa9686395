// Schedules worth timing beside the rule's.
#pragma once

#include <vector>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// Schedules that take all sizes that `rule`, one of choose_schedules, takes, and under the same
/// conditions: `rule` first, then its neighbours, the nearest first: other vectors, vectors of a
/// thread, threads, rows of a block, blocks of a cluster (if `clusters`), registers held or not.
/// Bounded, without repetition, always the same. Those of families without a choice: `rule` alone.
std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters);

}  // namespace sinter::codegen
