// SPDX-License-Identifier: Apache-2.0
// Offsets of gathered elements.
#pragma once

#include <cstdint>

#include <sinter/dtype.h>

namespace sinter::runtime::cpu {

/// Adds `stride` times each index to `offsets`. Index i is values[i * step], of integer type
/// `type`; negative ones count from the end of `extent` elements. False if one is out of range.
bool add_indices(DType type, const void* values, std::int64_t step, std::int64_t extent,
                 std::int64_t stride, std::int64_t* offsets, std::int64_t count);

}  // namespace sinter::runtime::cpu
