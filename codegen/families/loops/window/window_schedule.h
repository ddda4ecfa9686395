// What others ask about windows; the rest: see kWindowSchedule.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// True if there are so many rows that no two threads need share one.
bool fills_windows(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
