// Threads along rows; several that share one reduce by shared memory.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

extern const LoopSchedule kColumnSchedule;

// Its members, for schedules that are near it and kernels that have several: see LoopSchedule.
bool takes_column(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_column(const ProgramAnalysis& analysis);
void search_column(CandidateSearch& search);
ThreadMapping map_column(const ProgramAnalysis& analysis, const Schedule& schedule,
                         Arguments& args);

}  // namespace sinter::codegen
