// SPDX-License-Identifier: Apache-2.0
// Row schedules for kernels with other work; for the rest see kRowSchedule.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// Candidates near a rule's row schedule (row_candidates.cpp).
void search_row(CandidateSearch& search);

/// Rows over which a block of `threads` loops, for a kernel with other work; no conditions.
Schedule choose_shared_row(const ProgramAnalysis& analysis, int threads);

// One thread for each row, which processes its elements in order, for combining scatters.
bool takes_ordered(const ProgramAnalysis& analysis);
std::vector<Schedule> choose_ordered(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
