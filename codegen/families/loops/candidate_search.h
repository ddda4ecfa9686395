// What the searches for schedules worth timing beside the rule's share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/schedule_neighbours.h"
#include "codegen/families/loops/vector_plan.h"

namespace sinter::codegen {

/// Bounds of what is tried: threads of a block, vectors of a thread, and words of registers that
/// its elements take.
inline constexpr int kMostCandidateThreads = 1024, kMostCandidateUnroll = 32;
inline constexpr double kMostCandidateWords = 160;

/// The schedule that `requested`, read from `text`, describes. Throws Error(kUsage) if it is none
/// for the program.
using CompleteSchedule = Schedule(const ProgramAnalysis& analysis, const Schedule& requested,
                                  const std::string& text);

/// Around one of the rules' schedules.
struct CandidateSearch {
  const ProgramAnalysis& analysis;
  const Schedule& rule;
  bool clusters;  // every device that the kernel is for has them
  Neighbours<Schedule> found;

  /// The rule's vectors and shorter ones; with `tails` rows need not consist of whole ones.
  std::vector<VectorPlan> vectors(bool tails = false) const;
  /// Adds what `complete` makes of `requested`, if it takes it.
  void add_completed(CompleteSchedule* complete, const Schedule& requested, double distance);
  /// Elements of the longest row that the rule's schedule takes.
  std::optional<std::int64_t> longest_row() const;
  /// How far a schedule's vectors and threads are from the rule's.
  double row_distance(const Schedule& schedule) const;
};

}  // namespace sinter::codegen
