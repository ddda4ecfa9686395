// The interface behind which each kind of schedule has what is its own.
#pragma once

#include <vector>

#include "codegen/families/loops/body/thread_mapping.h"
#include "codegen/families/loops/candidate_search.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// How threads walk the loops.
using MapThreads = ThreadMapping(const ProgramAnalysis& analysis, const Schedule& schedule,
                                 Arguments& args);

/// One way to spread loops over threads, in a folder of its own.
struct LoopSchedule {
  bool reduces;  // it is for programs that reduce rows, else for those that do not

  /// Whether it takes the program.
  bool (*takes)(const ProgramAnalysis& analysis);
  /// The rules' schedules for a program that it takes, in the order in which the runtime tries
  /// their conditions; the last has none.
  std::vector<Schedule> (*choose)(const ProgramAnalysis& analysis);
  /// Adds schedules worth timing beside one of the rules'.
  void (*search)(CandidateSearch& search);
  MapThreads* mapping;
  CompleteSchedule* complete;
};

extern const LoopSchedule kPointwiseSchedule, kRowSchedule, kColumnSchedule, kScanSchedule,
    kWindowSchedule, kTransposeSchedule, kStridedSchedule;

MapThreads map_pointwise, map_row, map_column, map_scan, map_window, map_transpose, map_strided;

}  // namespace sinter::codegen
