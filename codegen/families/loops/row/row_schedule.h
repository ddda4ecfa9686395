// Rows of which other kernels have some; the rest: see kRowSchedule.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// Candidates beside a rule's rows (row_candidates.cpp).
void search_row(CandidateSearch& search);

/// Rows that a block of `threads` loops over, for a kernel that has other work too: no conditions.
Schedule choose_shared_row(const ProgramAnalysis& analysis, int threads);

// One thread a row, which takes its elements one after the other, for combining scatters.
bool takes_ordered(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_ordered(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
