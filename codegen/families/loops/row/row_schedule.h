// Threads that share a row reduce by shuffles, then by shared memory.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

extern const LoopSchedule kRowSchedule;

// Its members, for schedules that are near it and kernels that have several: see LoopSchedule.
bool takes_row(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_row(const ProgramAnalysis& analysis);
void search_row(CandidateSearch& search);
ThreadMapping map_row(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args);

/// Rows that a block of `threads` loops over, for a kernel that has other work too: no conditions.
Schedule choose_shared_row(const ProgramAnalysis& analysis, int threads);

/// Dynamic shared memory of a row kernel: what the blocks of a cluster tell each other.
std::uint32_t row_shared_bytes(const ProgramAnalysis& analysis, const ThreadMapping& mapping);

// One thread a row, which takes its elements one after the other, for combining scatters.
bool takes_ordered(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_ordered(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
