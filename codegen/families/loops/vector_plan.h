// Which accesses of a program can move several neighbouring elements at once.
#pragma once

#include <vector>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// The longest vectors (of at most `most` elements) along `dim`, and which accesses then move whole
/// vectors. Conditions are what sizes must fulfil that are not known; nothing is required of
/// constants that do not fit: then the vectors are shorter.
struct VectorPlan {
  int vector = 1;
  bool tail = false;  // the last vector of a row may not be whole
  int dim = -1;
  std::vector<bool> vector_access;
  std::vector<plan::fb::Condition> conditions;
};
/// `tails`: rows need not consist of whole vectors. `among`: of these instructions alone; null: of
/// all.
VectorPlan plan_vectors(const ProgramAnalysis& analysis, int dim, int most = 8, bool tails = false,
                        const std::vector<bool>* among = nullptr);

/// The same of vectors of `longest` elements, however wide these are, if that many fit; else of
/// fewer.
VectorPlan plan_vectors_of(const ProgramAnalysis& analysis, int dim, int longest,
                           const std::vector<bool>& among);

/// Values that vary along `dim` but not within its vectors: whether an index lies before what is a
/// multiple of the vector, what is loaded behind such a bound alone, and what follows from those.
/// Accumulators that these alone use count as well, with a vector's first index.
std::vector<bool> uniform_in_vectors(const ProgramAnalysis& analysis, int dim, int vector);

/// Whether value `i` is one for all elements of a vector along `dim`: it does not vary along `dim`,
/// or is among `uniform`, those of uniform_in_vectors.
inline bool is_one_in_vectors(const ProgramAnalysis& analysis, int dim,
                              const std::vector<bool>& uniform, std::size_t i) {
  return (analysis.value(i).dims & dim_bit(dim)) == 0 || uniform[i];
}

/// Every access element by element.
VectorPlan no_vectors(const ProgramAnalysis& analysis);

/// A schedule with those vectors.
Schedule with_vectors(const VectorPlan& plan, ScheduleKind kind, int unroll = 1,
                      int threads_x = 256, int threads_y = 1);

}  // namespace sinter::codegen
