#include "codegen/families/loops/schedule.h"

#include <fmt/format.h>

#include "codegen/families/loops/loop_schedules.h"

namespace sinter::codegen {

std::string Schedule::to_string() const {
  const LoopSchedule& own = loop_schedule(family);
  const bool turns = family == Family::kTranspose;
  return fmt::format("{} vector={}{} {} threads={}x{}{}", own.name, vector,
                     turns ? fmt::format("x{}", turn.vector) : "",
                     looped() ? std::string("looped") : fmt::format("unroll={}", unroll), threads_x,
                     threads_y, own.write(*this));
}

}  // namespace sinter::codegen
