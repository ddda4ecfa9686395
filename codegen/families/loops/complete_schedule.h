// What asked schedules are completed by: the same for several kinds.
#pragma once

#include <string>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// Throws Error(kUsage).
[[noreturn]] void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                                  const std::string& why);
/// What `requested` says, with its vectors along the last of `dims`, if they fit.
Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text);
/// Refuses a schedule that loops over nothing and whose threads hold fewer than a row's elements.
void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text);

}  // namespace sinter::codegen
