// Running combinations along rows, whose parts are taken in order.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

extern const LoopSchedule kScanSchedule;

// Its members, for schedules that are near it and kernels that have several: see LoopSchedule.
bool takes_scan(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_scan(const ProgramAnalysis& analysis);
void search_scan(CandidateSearch& search);
ThreadMapping map_scan(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args);

}  // namespace sinter::codegen
