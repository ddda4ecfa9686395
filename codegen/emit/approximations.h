// Where a cheaper form of a function is as good: by the range of its argument, and by the precision
// that the graph gives its result.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <sinter/scalar_op.h>

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

/// The forms chosen for a loop program. A result that the graph rounds to 16 bits is within 2^-15
/// of the exact one, relative to it: a sixteenth of what rounding it to float16 adds; a gelu that
/// becomes a float of 8 bits within 2^-8. Others are as precise as the general forms.
/// device/approximate.cuh states each function's own bound.
class Approximations {
 public:
  /// None if the request asks for precise mathematics.
  explicit Approximations(const ProgramAnalysis& analysis);

  /// The operator of instruction `i`, an Op: the program's, or kDiv for a kQuotient of what is
  /// approximate itself, for which one more rounding of float32 is nothing.
  ScalarOp op(std::size_t i) const { return ops_[i]; }
  /// The device function that computes instruction `i`, an Op, from operands(i); null: its
  /// operator's.
  const char* function(std::size_t i) const { return functions_[i]; }
  /// Instructions of function(i), roughly.
  int length(std::size_t i) const;
  /// Other than the program's where one function, or a store, computes several instructions.
  const std::vector<std::uint32_t>& operands(std::size_t i) const { return operands_[i]; }
  /// Of a store of floats of 8 bits: what is too large is to become the largest number.
  bool saturates(std::size_t i) const { return saturates_[i]; }
  /// Of what stays a kQuotient: the reciprocal of its divisor serves (print_instr.h).
  bool by_inverse(std::size_t i) const { return by_inverse_[i]; }
  /// Some store needs the value, computed so.
  bool is_live(std::size_t i) const { return live_[i]; }

 private:
  void find_approximate(const ProgramAnalysis& analysis);
  void choose(const ProgramAnalysis& analysis, const std::vector<ValueRange>& ranges,
              bool rounded_to_float8, std::size_t i);
  void choose_rounding(const ProgramAnalysis& analysis, std::size_t i);
  void choose_quantization(const ProgramAnalysis& analysis, std::size_t i);
  void choose_store(const ProgramAnalysis& analysis, std::size_t i);
  void find_live(const ProgramAnalysis& analysis);

  std::vector<ScalarOp> ops_;
  std::vector<const char*> functions_;
  std::vector<std::vector<std::uint32_t>> operands_;
  std::vector<bool> live_, saturates_, by_inverse_;
};

}  // namespace sinter::codegen
