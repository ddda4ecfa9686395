// SPDX-License-Identifier: Apache-2.0
// Error of results relative to exact ones.
#pragma once

#include <vector>

#include "ir/tensor.h"

namespace sinter::ir {

/// |found - exact| / |exact| in the 2-norm, over all elements of all added pairs, in float64.
/// Infinities and NaNs that both have at an index are equal; where only one has them, and for
/// different shapes, the error is infinite. Zero if nothing differs.
///
/// Measures computed elements only. Elements filled by a mask (-1e4, the lowest number), or to
/// which one is added, would make the error of the others look small, and are excluded. Such floats
/// are at least 4,096, with no elements of similar size (down to a sixteenth). Their relative error
/// is at most 1/8 of the others', and at most a thousandth: elements that are rounded with the
/// others have similar errors.
class RelativeError {
 public:
  enum class Pairs {
    kPrograms,  // of two programs; integers are numbers
    /// Of one program, with and without rounding, which leaves masks equal: equal masks are at
    /// least 64, and other elements may be up to half as large. A different integer counts with its
    /// whole value as error.
    kRounding,
  };
  explicit RelativeError(Pairs pairs = Pairs::kPrograms);

  void add(const Tensor& found, const Tensor& exact);
  double value() const;

  /// The smallest element of a mask that rounding leaves unchanged.
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
  Squares others_;                    // of integers and exact zeros
  std::vector<Squares> by_exponent_;  // of floats, by the exact value's binary exponent
};

}  // namespace sinter::ir
