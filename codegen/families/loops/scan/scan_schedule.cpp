// SPDX-License-Identifier: Apache-2.0
// Schedules of scans along rows.
#include <algorithm>

#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/scan/scan_chain.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

Schedule scan_of(const VectorPlan& vectors, int lanes, int unroll = 1) {
  return with_vectors(vectors, ScanParameters{}, unroll, lanes,
                      lanes <= 32 ? kBlockThreads / lanes : 1);
}

/// A block for each tile: 16 elements of a thread, 8 where their loads are single ones or wide.
Schedule tiles_of(const VectorPlan& vectors) {
  constexpr int kThreads = 256;
  const int unroll = vectors.vector > 2 ? 16 / vectors.vector : 8 / vectors.vector;
  static_assert(kThreads * 8 == kLeastScanTile);
  return with_vectors(vectors, ScanParameters{true}, unroll, kThreads, 1);
}

/// A thread for each row: loads that are under way at once hide their latency.
Schedule thread_rows(const ProgramAnalysis& analysis) {
  constexpr int kAhead = 8;
  const auto longest = upper(analysis, analysis.row_length());
  return scan_of(no_vectors(analysis), 1, longest && *longest <= kAhead ? 1 : kAhead);
}

/// Threads that share a row.
int lanes_of(const ProgramAnalysis& analysis, const VectorPlan& vectors) {
  // Parts of a row up to which a small group of threads is used; a warp needs no barriers, which
  // pays while there are rows for all multiprocessors.
  constexpr std::int64_t kParts = 4, kPartsOfMany = 16;
  const std::int64_t many_rows = std::int64_t{analysis.device().multiprocessors} * 16;
  constexpr int kFewThreads = 256, kManyThreads = 512;
  const auto longest = upper(analysis, analysis.row_length());
  if (!longest) return kFewThreads;
  const std::int64_t length = ceil_div(*longest, vectors.vector);
  if (length <= 32) return power_of_two_up(std::max<std::int64_t>(length, 1));
  const auto rows = upper(analysis, analysis.row_count());
  if (length <= 32 * (rows && *rows >= many_rows ? kPartsOfMany : kParts)) return 32;
  return length <= kFewThreads * kParts ? kFewThreads : kManyThreads;
}

bool takes_scan(const ProgramAnalysis& analysis) { return analysis.scans(); }

std::vector<Schedule> choose_scan(const ProgramAnalysis& analysis) {
  const VectorPlan scalar = no_vectors(analysis);
  const int dim = analysis.last_dim(analysis.inner_dims());
  if (analysis.request().scan_tiles) {
    const VectorPlan vectors = plan_vectors(analysis, dim);
    std::vector<Schedule> schedules = {tiles_of(vectors)};
    if (!vectors.conditions.empty()) schedules.push_back(tiles_of(scalar));
    return schedules;
  }
  // If adjacent rows are contiguous, adjacent threads take adjacent rows.
  if (unit_strides(analysis, analysis.last_dim(analysis.outer_dims())) >
      unit_strides(analysis, dim))
    return {thread_rows(analysis)};
  const VectorPlan vectors = plan_vectors(analysis, dim);
  std::vector<Schedule> schedules = {scan_of(vectors, lanes_of(analysis, vectors))};
  if (!vectors.conditions.empty()) schedules.push_back(scan_of(scalar, lanes_of(analysis, scalar)));
  return schedules;
}

void search_scan(CandidateSearch& search) {
  if (search.rule.as<ScanParameters>().tiles) return;
  if (search.rule.threads_x == 1) return;  // adjacent rows are contiguous, not elements
  for (const VectorPlan& vectors : search.vectors())
    for (int lanes = 4; lanes <= kMostCandidateThreads; lanes *= 2) {
      const Schedule s = scan_of(vectors, lanes);
      search.found.add(s, search.row_distance(s));
    }
}

Schedule complete_scan(const ProgramAnalysis& analysis, const Schedule& requested,
                       const std::string& text) {
  Schedule schedule = complete_schedule(analysis, requested, analysis.inner_dims(), text);
  require_held(analysis, schedule,
               std::int64_t{requested.unroll} * requested.vector * requested.threads_x, text);
  return schedule;
}

}  // namespace

const LoopSchedule kScanSchedule = {true,        takes_scan, choose_scan,
                                    search_scan, map_scan,   complete_scan};

}  // namespace sinter::codegen
