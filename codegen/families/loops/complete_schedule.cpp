#include "codegen/families/loops/complete_schedule.h"

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/loops/vector_plan.h"

namespace sinter::codegen {

void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                     const std::string& why) {
  throw Error(ErrorCode::kUsage,
              fmt::format("schedule '{}' for kernel '{}': {}", text, analysis.request().name, why));
}

Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text) {
  const int dim = requested.vector > 1 ? analysis.last_dim(dims) : -1;
  Schedule schedule = with_vectors(plan_vectors(analysis, dim, requested.vector), requested.kind);
  if (schedule.vector != requested.vector || !schedule.conditions.empty())
    refuse_schedule(analysis, text, fmt::format("its vectors are {} long", schedule.vector));
  schedule.unroll = requested.unroll;
  schedule.threads_x = requested.threads_x;
  schedule.threads_y = requested.threads_y;
  if (schedule.threads() > 1024)
    refuse_schedule(analysis, text, "a block has at most 1024 threads");
  return schedule;
}

void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text) {
  const ir::Dim length = analysis.row_length();
  if (!schedule.looped() && !(length.is_constant() && length.value() <= held))
    refuse_schedule(analysis, text, fmt::format("it holds {} elements of a row", held));
}

}  // namespace sinter::codegen
