// SPDX-License-Identifier: Apache-2.0
// Rows of any storage type, combined element by element with accumulators.
#pragma once

#include <cstdint>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {

/// sums[c] = combine(sums[c], row[c] * *factor) for c < count; `factor` null: as it is. `row` and
/// `factor` are of a storage type, `sums` of its compute type. Integers wrap, NaN wins.
using RowCombiner = void (*)(void* sums, const void* row, const void* factor, std::int64_t count);

/// `type`: of numbers, but no float of 8 bits.
RowCombiner find_row_combiner(Combine combine, DType type);

}  // namespace sinter::runtime::cpu
