// SPDX-License-Identifier: Apache-2.0
// Chooses cheaper forms of functions where the argument's range or the precision of the result
// allows them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <sinter/scalar_op.h>

#include "codegen/emit/program_analysis.h"

namespace sinter::codegen {

/// An interval, infinities included; NaN is always possible.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  /// Every value that is not infinite lies in [-bound, bound].
  bool finite_within(double bound) const;
  /// Every value, infinities too, lies in [from, to].
  bool within(double from, double to) const { return low >= from && high <= to; }
  /// Bound of the finite values, where the value may be infinite (as a float16).
  double finite_bound = std::numeric_limits<double>::infinity();
};

/// One range for each instruction, rounding and approximation errors included. Nothing is known of
/// stores and of integers beyond 2^53.
std::vector<ValueRange> find_value_ranges(const ProgramAnalysis& analysis);

/// The forms chosen for a loop program. A result that the graph rounds to 16 bits has a relative
/// error of at most 2^-15, 1/16 of the rounding to float16. A GELU that is rounded to fp8 has at
/// most 2^-8. Others are as precise as the general forms. device/approximate.cuh states each
/// function's bound.
class Approximations {
 public:
  /// Chooses nothing if the request asks for precise mathematics.
  explicit Approximations(const ProgramAnalysis& analysis);

  /// The operator of instruction `i`, an Op: the program's, or kDiv for a kQuotient of an
  /// approximate value, which need not be rounded once.
  ScalarOp op(std::size_t i) const { return ops_[i]; }
  /// The device function that computes instruction `i`, an Op, from operands(i); null means the
  /// operator's own.
  const char* function(std::size_t i) const { return functions_[i]; }
  /// Approximate count of instructions of function(i).
  int length(std::size_t i) const;
  /// Differs from the program's operands if a function or a store covers several instructions.
  const std::vector<std::uint32_t>& operands(std::size_t i) const { return operands_[i]; }
  /// For a store of fp8: values saturate to the largest finite number.
  bool saturates(std::size_t i) const { return saturates_[i]; }
  /// For a remaining kQuotient: multiplies by the divisor's reciprocal (print_instr.h).
  bool by_inverse(std::size_t i) const { return by_inverse_[i]; }
  /// True if some store needs the value.
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
