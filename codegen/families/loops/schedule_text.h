// Schedules of loops from text.
#pragma once

#include <string>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// The schedule that `text` (Schedule::to_string) describes, for measuring. Throws Error(kUsage) if
/// it is none, or none for this program.
Schedule parse_schedule(const ProgramAnalysis& analysis, const std::string& text);

// What the parsers of all schedules share.

/// Throws Error(kUsage).
[[noreturn]] void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                                  const std::string& why);
/// The unroll and threads of `requested`, with its vectors along the last of `dims`, if they fit.
Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text);
/// Refuses a schedule that loops over nothing and whose threads hold fewer than a row's elements.
void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text);

}  // namespace sinter::codegen
