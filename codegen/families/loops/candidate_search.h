// SPDX-License-Identifier: Apache-2.0
// Common code of the searches for candidate schedules near the rule's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/schedule_neighbours.h"
#include "codegen/families/loops/vector_plan.h"

namespace sinter::codegen {

/// Search limits: threads of a block, vectors of a thread, and registers of its elements.
inline constexpr int kMostCandidateThreads = 1024, kMostCandidateUnroll = 32;
inline constexpr double kMostCandidateWords = 160;

/// Completes the schedule `requested`, parsed from `text`. Throws Error(kUsage) if it does not fit
/// the program.
using CompleteSchedule = Schedule(const ProgramAnalysis& analysis, const Schedule& requested,
                                  const std::string& text);

/// The search around one of the rules' schedules.
struct CandidateSearch {
  const ProgramAnalysis& analysis;
  const Schedule& rule;
  bool clusters;  // every target device of the kernel has clusters
  Neighbours<Schedule> found;

  /// The rule's vector width and narrower ones; with `tails` rows may end in a partial vector.
  std::vector<VectorPlan> vectors(bool tails = false) const;
  /// Adds the completed `requested`, if it fits.
  void add_completed(CompleteSchedule* complete, const Schedule& requested, double distance);
  /// Length of the longest row that the rule's schedule accepts.
  std::optional<std::int64_t> longest_row() const;
  /// Distance of a schedule's vectors and threads from the rule's.
  double row_distance(const Schedule& schedule) const;
};

}  // namespace sinter::codegen
