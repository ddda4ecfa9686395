// SPDX-License-Identifier: Apache-2.0
// What the tests of products and convolutions on the CPU share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/sinter.h>

#include "plan_generated.h"

namespace sinter::testing {

using Bytes = std::vector<std::byte>;

/// Elements in [-1, 1].
Bytes random_bytes(DType type, std::int64_t count, unsigned seed);
/// Makes some of them NaN, and others infinite if `activation` has a value for these.
void add_special(DType type, Bytes& bytes, plan::fb::Activation activation);
/// As plan.fbs defines it.
double activate(plan::fb::Activation activation, double x, double a = 0, double b = 0);
/// ASSERTs every element within the type's rounding of the largest; NaN and infinities where they
/// are expected.
void expect_close(DType type, const Bytes& expected, const TensorView& actual);

}  // namespace sinter::testing
