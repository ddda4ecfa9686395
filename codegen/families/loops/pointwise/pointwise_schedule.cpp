// SPDX-License-Identifier: Apache-2.0
// Pointwise schedules: elements of a thread.
#include <algorithm>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

constexpr int kPointwiseThreads = 256;

/// Bytes of the widest access of a thread.
int widest_access(const ProgramAnalysis& analysis, const VectorPlan& vectors) {
  std::size_t widest = 1;
  for (const std::size_t i : analysis.live_accesses()) {
    const bool whole = vectors.vector_access[analysis.instr(i).access];
    widest = std::max(
        widest, analysis.memory_bytes(i) * static_cast<std::size_t>(whole ? vectors.vector : 1));
  }
  return static_cast<int>(widest);
}

/// Vectors of a thread for a large tensor. Memory-bound code is fastest with 16 bytes, as enough
/// threads are in flight; narrower accesses need several. With more arithmetic, several vectors of
/// one input overlap with their loads; very long code would grow too large.
int pointwise_unroll(const ProgramAnalysis& analysis, const VectorPlan& vectors) {
  constexpr int kFewOperations = 8, kManyOperations = 40, kBytes = 16, kMostUnroll = 4;
  const int operations = count_operations(analysis);
  if (operations > kManyOperations) return 1;
  if (vectors.vector == 1)
    return std::clamp(kBytes / widest_access(analysis, vectors), 1, kMostUnroll);
  if (operations <= kFewOperations) return 1;
  const double words = words_per_element(analysis) * vectors.vector;
  return words <= 4 ? 4 : 1;
}

bool takes_pointwise(const ProgramAnalysis& analysis) {
  return analysis.program().inner_dims == 0 ||
         (analysis.scatters() && !analysis.combines() && analysis.stages() == 0);
}

std::vector<Schedule> choose_pointwise(const ProgramAnalysis& analysis) {
  const DimSet all = analysis.outer_dims() | analysis.inner_dims();
  const ir::Dim elements = analysis.size_of_dims(all);
  const VectorPlan vectors = plan_vectors(analysis, analysis.last_dim(all),
                                          vector_of_few(analysis, elements, kPointwiseThreads));
  std::vector<Schedule> schedules = {with_vectors(vectors, PointwiseParameters{})};
  const std::int64_t many_blocks = std::int64_t{analysis.device().multiprocessors} * 8 * 4;
  if (elements.is_constant() &&
      elements.value() / vectors.vector / kPointwiseThreads >= many_blocks)
    schedules[0].unroll = pointwise_unroll(analysis, vectors);
  if (!vectors.conditions.empty())
    schedules.push_back(with_vectors(no_vectors(analysis), PointwiseParameters{}));
  return schedules;
}

void search_pointwise(CandidateSearch& search) {
  if (kTransposeSchedule.takes(search.analysis)) kTransposeSchedule.search(search);
  for (const VectorPlan& vectors : search.vectors(search.rule.as<PointwiseParameters>().tail))
    for (const int unroll : {1, 2, 4, 8})
      for (const int threads : {64, 128, 256, 512, 1024}) {
        if (unroll * vectors.vector * words_per_element(search.analysis) > kMostCandidateWords)
          continue;
        search.found.add(with_vectors(vectors, PointwiseParameters{vectors.tail}, unroll, threads),
                         steps_between(vectors.vector, search.rule.vector) * 1.5 +
                             steps_between(unroll, search.rule.unroll) +
                             steps_between(threads, search.rule.threads_x));
      }
}

Schedule complete_pointwise(const ProgramAnalysis& analysis, const Schedule& requested,
                            const std::string& text) {
  return complete_schedule(analysis, requested, analysis.outer_dims(), text);
}

}  // namespace

const LoopSchedule kPointwiseSchedule = {
    false, takes_pointwise, choose_pointwise, search_pointwise, map_pointwise, complete_pointwise};

}  // namespace sinter::codegen
