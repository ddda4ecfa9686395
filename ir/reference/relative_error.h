// How far results are from what they should be.
#pragma once

#include <vector>

#include "ir/tensor.h"

namespace sinter::ir {

/// |found - exact| / |exact| in the 2-norm, over all elements of all pairs that are added, in
/// float64. Infinities and NaNs that both have at one place are equal; where one alone has them,
/// and where shapes differ, the error is infinite. Zero if nothing differs.
///
/// It is the error of what was computed. What a mask has filled (-1e4, the lowest number), or is
/// added to, would make any error of the other elements look small, and is left out. Such floats
/// are 4,096 at least, have nothing near them in size (up to a sixteenth of theirs) and are at
/// least eight times less off than the smaller ones, and by no more than a thousandth: what is
/// rounded with the others is off with them.
class RelativeError {
 public:
  enum class Pairs {
    kPrograms,  // of two programs; integers are numbers
    /// Of one program, with and without some rounding, which has not touched what is equal: masks
    /// that are equal are 64 at least, and others may be half as large. An integer that differs
    /// counts as one that is off by all of it.
    kRounding,
  };
  explicit RelativeError(Pairs pairs = Pairs::kPrograms);

  void add(const Tensor& found, const Tensor& exact);
  double value() const;

  /// The least element of a mask that rounding leaves as it is.
  static constexpr double kLeastUntouched = 64;

 private:
  struct Squares {
    double difference = 0, size = 0;
    Squares& operator+=(const Squares& other);
    double ratio() const { return difference / size; }
    double error() const;
  };
  bool is_mask(std::size_t exponent, std::size_t empty, const Squares& large,
               const Squares& others) const;

  Pairs pairs_;
  bool is_infinite_ = false;
  Squares others_;                    // of integers, and of exact zeros
  std::vector<Squares> by_exponent_;  // of floats: of the exact one's binary exponent
};

}  // namespace sinter::ir
