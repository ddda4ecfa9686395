// Which values the instructions of a loop program can take.
#pragma once

#include <limits>
#include <vector>

#include "codegen/emit/program_analysis.h"

namespace sinter::codegen {

/// From low to high, infinities included; NaN may always occur beside them.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  /// Every value that is not infinite lies in [-bound, bound].
  bool finite_within(double bound) const;
  /// Every value, infinities too, lies in [from, to].
  bool within(double from, double to) const { return low >= from && high <= to; }
  /// A float16 may be infinite, but its finite values are bounded: this large at most.
  double finite_bound = std::numeric_limits<double>::infinity();
};

/// A range for each instruction (of stores and integers beyond 2^53 nothing is known). What
/// rounding and approximations add is included.
std::vector<ValueRange> find_value_ranges(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
