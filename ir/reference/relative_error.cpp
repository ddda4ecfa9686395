// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/relative_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sinter::ir {
namespace {

// Binary exponents of float64, including subnormals.
constexpr int kLeastExponent = -1074, kMostExponent = 1023;
constexpr std::size_t place_of(int exponent) {
  return static_cast<std::size_t>(exponent - kLeastExponent);
}

// A mask's elements are at least 2^12, and the 4 powers of two below them are empty. If rounding
// left the mask unchanged, 2^6 and 1 empty power of two suffice.
constexpr std::size_t kLeastMask = place_of(12), kEmpty = 4;
constexpr std::size_t kLeastUntouchedMask = place_of(6), kEmptyUntouched = 1;
// Least factor and maximum of the mask's error: squares of relative errors.
constexpr double kLessOff = 64, kMostOff = 0x1p-20;

}  // namespace

RelativeError::Squares& RelativeError::Squares::operator+=(const Squares& other) {
  difference += other.difference;
  size += other.size;
  return *this;
}

double RelativeError::Squares::error() const {
  if (difference == 0) return 0;
  return size == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(ratio());
}

RelativeError::RelativeError(Pairs pairs)
    : pairs_(pairs), by_exponent_(place_of(kMostExponent) + 1) {}

void RelativeError::add(const Tensor& found, const Tensor& exact) {
  if (found.shape() != exact.shape()) {
    is_infinite_ = true;
    return;
  }
  const bool are_floats = is_float(exact.dtype());
  const bool counts = !are_floats && pairs_ == Pairs::kRounding;
  for (std::int64_t i = 0; i < exact.element_count(); ++i) {
    const double a = found.at(i), b = exact.at(i);
    const bool is_equal = a == b || (std::isnan(a) && std::isnan(b));
    if (counts) {
      others_ += {is_equal ? 0.0 : 1.0, 1};
    } else if (std::isfinite(a) && std::isfinite(b)) {
      Squares& own = are_floats && b != 0 ? by_exponent_[place_of(std::ilogb(b))] : others_;
      own += {(a - b) * (a - b), b * b};
    } else if (!is_equal) {
      is_infinite_ = true;
    }
  }
}

/// `exponent`: index of the smallest of `large`, with `empty` empty indices below.
bool RelativeError::is_mask(std::size_t exponent, std::size_t empty, const Squares& large,
                            const Squares& others) const {
  if (large.size == 0 || others.size == 0 || others.difference == 0) return false;
  if (pairs_ == Pairs::kRounding && large.difference == 0)
    return empty == kEmptyUntouched && exponent >= kLeastUntouchedMask;
  return empty == kEmpty && exponent >= kLeastMask && large.ratio() <= kMostOff &&
         large.ratio() * kLessOff <= others.ratio();
}

double RelativeError::value() const {
  if (is_infinite_) return std::numeric_limits<double>::infinity();
  // Sums up to each exponent.
  std::vector<Squares> up_to(by_exponent_.size());
  Squares sum = others_;
  for (std::size_t e = 0; e < by_exponent_.size(); ++e) up_to[e] = sum += by_exponent_[e];
  // Downwards: elements above a gap are judged without larger ones.
  Squares all = sum, large;
  std::size_t empty = 0;
  for (std::size_t e = by_exponent_.size(); e-- > 0;) {
    const Squares& own = by_exponent_[e];
    if (own.size != 0) {
      large += own;
      empty = 0;
    } else {
      ++empty;
    }
    if (e == 0 || !is_mask(e + empty, empty, large, up_to[e - 1])) continue;
    all = up_to[e - 1];
    large = {};
  }
  return all.error();
}

}  // namespace sinter::ir
