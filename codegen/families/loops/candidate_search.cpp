// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/candidate_search.h"

#include <algorithm>

#include <sinter/error.h>

#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

std::vector<VectorPlan> CandidateSearch::vectors(bool tails) const {
  std::vector<VectorPlan> all;
  for (int length = rule.vector; length >= 1; length /= 2) {
    VectorPlan plan =
        length > 1 ? plan_vectors(analysis, rule.vector_dim, length, tails) : no_vectors(analysis);
    if (plan.vector == length && implies_all(rule.conditions, plan.conditions))
      all.push_back(std::move(plan));
  }
  return all;
}

void CandidateSearch::add_completed(CompleteSchedule* complete, const Schedule& requested,
                                    double distance) {
  try {
    found.add(complete(analysis, requested, ""), distance);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
  }
}

std::optional<std::int64_t> CandidateSearch::longest_row() const {
  const ir::Dim length = analysis.row_length();
  std::optional<std::int64_t> most = upper(analysis, length);
  const std::uint32_t expression = analysis.exprs().intern(length);
  for (const auto& condition : rule.conditions)
    if (condition.expression() == expression && condition.max() != INT64_MAX)
      most = std::min(most.value_or(condition.max()), condition.max());
  return most;
}

double CandidateSearch::row_distance(const Schedule& s) const {
  return 1.5 * steps_between(s.vector, rule.vector) + steps_between(s.threads_x, rule.threads_x);
}

}  // namespace sinter::codegen
