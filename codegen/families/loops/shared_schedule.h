// Schedules of a kernel that several programs share.
#pragma once

#include <vector>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// For a kernel whose blocks of `threads` do the work of several programs: this one's. Throws
/// Error(kUnsupported) for scans and scatters.
std::vector<Schedule> choose_shared(const ProgramAnalysis& analysis, int threads);

}  // namespace sinter::codegen
