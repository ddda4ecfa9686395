// SPDX-License-Identifier: Apache-2.0
// The interface that each kind of loop schedule implements.
#pragma once

#include <vector>

#include "codegen/families/loops/body/thread_mapping.h"
#include "codegen/families/loops/candidate_search.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// Maps threads to loop iterations.
using MapThreads = ThreadMapping(const ProgramAnalysis& analysis, const Schedule& schedule,
                                 Arguments& args);

/// One way to distribute loops over threads, in its own folder.
struct LoopSchedule {
  bool reduces;  // for programs with row reductions, otherwise for those without

  /// Whether it accepts the program.
  bool (*takes)(const ProgramAnalysis& analysis);
  /// The rules' schedules for a program that it accepts, in the order in which the runtime tests
  /// their conditions; the last has none.
  std::vector<Schedule> (*choose)(const ProgramAnalysis& analysis);
  /// Adds candidates near one of the rules' schedules, for timing.
  void (*search)(CandidateSearch& search);
  MapThreads* mapping;
  CompleteSchedule* complete;
};

extern const LoopSchedule kPointwiseSchedule, kRowSchedule, kColumnSchedule, kScanSchedule,
    kWindowSchedule, kTransposeSchedule, kStridedSchedule, kStencilSchedule;

MapThreads map_pointwise, map_row, map_column, map_scan, map_window, map_transpose, map_strided,
    map_stencil;

}  // namespace sinter::codegen
