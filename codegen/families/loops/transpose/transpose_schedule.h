// Tiles through shared memory, where some loads run along another dimension than the stores.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

extern const LoopSchedule kTransposeSchedule;

// Its members, for schedules that are near it and kernels that have several: see LoopSchedule.
bool takes_transpose(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_transpose(const ProgramAnalysis& analysis);
void search_transpose(CandidateSearch& search);
ThreadMapping map_transpose(const ProgramAnalysis& analysis, const Schedule& schedule,
                            Arguments& args);

/// What `requested` says about vectors, tile and threads. Throws Error(kUsage) if they do not fit.
Schedule transpose_schedule(const ProgramAnalysis& analysis, const Schedule& requested);

}  // namespace sinter::codegen
