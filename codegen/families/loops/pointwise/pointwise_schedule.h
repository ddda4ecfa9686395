// No reduction: threads along all elements.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

extern const LoopSchedule kPointwiseSchedule;

// Its members, for schedules that are near it and kernels that have several: see LoopSchedule.
bool takes_pointwise(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_pointwise(const ProgramAnalysis& analysis);
void search_pointwise(CandidateSearch& search);
ThreadMapping map_pointwise(const ProgramAnalysis& analysis, const Schedule& schedule,
                            Arguments& args);

}  // namespace sinter::codegen
