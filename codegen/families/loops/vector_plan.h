// SPDX-License-Identifier: Apache-2.0
// Finds accesses that can move several adjacent elements at once.
#pragma once

#include <vector>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// The longest vectors along `dim`, of at most `most` elements, and the accesses that move whole
/// vectors. Conditions are requirements on unknown sizes. Constant sizes never become conditions:
/// if they do not fit, vectors are shorter.
struct VectorPlan {
  int vector = 1;
  bool tail = false;  // the last vector of a row may be partial
  int dim = -1;
  std::vector<bool> vector_access;
  std::vector<plan::fb::Condition> conditions;
};
/// `tails`: rows may end in a partial vector. `among`: considers only these instructions; null:
/// all.
VectorPlan plan_vectors(const ProgramAnalysis& analysis, int dim, int most = 8, bool tails = false,
                        const std::vector<bool>* among = nullptr);

/// Most elements of a vector for `elements` in all, by blocks of `threads`: fewer than 8 if longer
/// ones would leave most multiprocessors without a block, as the time of so few is that of one
/// thread's.
int vector_of_few(const ProgramAnalysis& analysis, const ir::Dim& elements, int threads);

/// The same for vectors of `longest` elements, whatever their width, or fewer if these do not
/// fit.
VectorPlan plan_vectors_of(const ProgramAnalysis& analysis, int dim, int longest,
                           const std::vector<bool>& among);

/// Values that vary along `dim` but not within a vector: comparisons of an index with a multiple of
/// the vector, loads guarded only by these, and values derived from them. Sums used only by these
/// count as well, taken at a vector's first index.
std::vector<bool> uniform_in_vectors(const ProgramAnalysis& analysis, int dim, int vector);

/// Whether value `i` is the same for all elements of a vector along `dim`: it does not vary along
/// `dim`, or is in `uniform`, from uniform_in_vectors().
inline bool is_one_in_vectors(const ProgramAnalysis& analysis, int dim,
                              const std::vector<bool>& uniform, std::size_t i) {
  return (analysis.value(i).dims & dim_bit(dim)) == 0 || uniform[i];
}

/// No vectors: every access moves one element.
VectorPlan no_vectors(const ProgramAnalysis& analysis);

/// A schedule with these vectors.
Schedule with_vectors(const VectorPlan& plan, ScheduleKind kind, int unroll = 1,
                      int threads_x = 256, int threads_y = 1);

}  // namespace sinter::codegen
