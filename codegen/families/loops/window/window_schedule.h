// Questions of other schedules about windows; for the rest see kWindowSchedule.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// True if rows are so many that threads need not share one.
bool fills_windows(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
