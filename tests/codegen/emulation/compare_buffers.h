// SPDX-License-Identifier: Apache-2.0
// What a kernel or program has written against what it should have.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <sinter/dtype.h>

namespace sinter::test {

/// Of floats: |found - expected| <= relative * (|expected| + floor). Integers must be equal, NaN
/// where NaN is expected.
struct Allowed {
  double relative = 0, floor = 1;
};

/// "[3] is 1.5, not 2", of the first element that differs by more; empty if none does. Both hold
/// elements of storage type `type`, as many as `expected` has.
std::string first_difference(DType type, std::span<const std::byte> found,
                             std::span<const std::byte> expected, const Allowed& allowed);

/// The largest finite magnitude; zero of integers.
double largest_magnitude(DType type, std::span<const std::byte> elements);

}  // namespace sinter::test
