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

/// offsets[i] = first + i * step.
void fill_offsets(std::int64_t first, std::int64_t step, std::int64_t* offsets, std::int64_t count);
/// to[i] = offsets[i], which 32 bits hold.
void narrow_offsets(const std::int64_t* offsets, std::int32_t* to, std::int64_t count);
/// The least and the greatest of `count` > 0 values.
void find_bounds(const std::int32_t* values, std::int64_t count, std::int32_t& least,
                 std::int32_t& most);

}  // namespace sinter::runtime::cpu
