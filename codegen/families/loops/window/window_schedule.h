// SPDX-License-Identifier: Apache-2.0
// Questions of other schedules about windows; for the rest see kWindowSchedule.
#pragma once

#include "codegen/families/loops/loop_schedule.h"

namespace sinter::codegen {

/// True if whole rows for each thread are enough threads for the device.
bool fills_windows(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
