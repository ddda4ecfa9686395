#include "codegen/families/loops/loop_schedules.h"

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/loops/column/column_schedule.h"
#include "codegen/families/loops/pointwise/pointwise_schedule.h"
#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/scan/scan_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/schedule_text.h"
#include "codegen/families/loops/transpose/transpose_schedule.h"
#include "codegen/families/loops/window/window_schedule.h"

namespace sinter::codegen {

std::span<const LoopSchedule* const> loop_schedules() {
  static const LoopSchedule* const all[] = {&kPointwiseSchedule, &kRowSchedule,
                                            &kColumnSchedule,    &kScanSchedule,
                                            &kWindowSchedule,    &kTransposeSchedule};
  return all;
}

const LoopSchedule& loop_schedule(Family family) {
  for (const LoopSchedule* schedule : loop_schedules())
    if (schedule->family == family) return *schedule;
  throw Error(ErrorCode::kInternal, "unknown schedule of loops");
}

std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis) {
  if (!analysis.request().schedule.empty())
    return {parse_schedule(analysis, analysis.request().schedule)};
  if (takes_transpose(analysis)) return choose_transpose(analysis);
  if (takes_pointwise(analysis)) return choose_pointwise(analysis);
  if (takes_scan(analysis)) return choose_scan(analysis);
  if (takes_ordered(analysis)) return choose_ordered(analysis);
  const int along_rows = unit_strides(analysis, analysis.last_dim(analysis.outer_dims()));
  const int along_elements = unit_strides(analysis, analysis.last_dim(analysis.inner_dims()));
  if (takes_column(analysis) && along_rows > along_elements)
    return takes_window(analysis) && fills_windows(analysis) ? choose_window(analysis)
                                                             : choose_column(analysis);
  if (takes_row(analysis)) return choose_row(analysis);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("kernel '{}': no schedule takes its loops", analysis.request().name));
}

std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters) {
  CandidateSearch search{analysis, rule, clusters, Neighbours<Schedule>(rule)};
  loop_schedule(rule.family).search(search);
  return search.found.take();
}

}  // namespace sinter::codegen
