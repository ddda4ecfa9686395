// Short rows of constant length next to each other: windows with channels last.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

extern const LoopSchedule kWindowSchedule;

// Its members, for schedules that are near it and kernels that have several: see LoopSchedule.
bool takes_window(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_window(const ProgramAnalysis& analysis);
void search_window(CandidateSearch& search);
ThreadMapping map_window(const ProgramAnalysis& analysis, const Schedule& schedule,
                         Arguments& args);

/// True if there are so many rows that no two threads need share one.
bool fills_windows(const ProgramAnalysis& analysis);

/// Throws Error(kUsage) if no schedule of that vector and tile takes the program.
Schedule window_schedule(const ProgramAnalysis& analysis, int vector, int tile, int threads);

}  // namespace sinter::codegen
