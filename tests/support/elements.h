// SPDX-License-Identifier: Apache-2.0
// Elements of buffers as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinter/dtype.h>

namespace sinter::testing {

/// Element `index` of `bytes`, and the inverse (rounding to nearest even).
double element(DType type, const std::vector<std::byte>& bytes, std::int64_t index);
void set_element(DType type, std::vector<std::byte>& bytes, std::int64_t index, double value);

}  // namespace sinter::testing
