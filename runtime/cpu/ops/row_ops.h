// SPDX-License-Identifier: Apache-2.0
// Combines rows of any storage type with accumulators, element by element.
#pragma once

#include <cstdint>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {

/// sums[c] = combine(sums[c], row[c] * *factor) for c < count; `factor` null: without it. `row` and
/// `factor` have a storage type, `sums` its compute type. Integers wrap, NaN propagates.
using RowCombiner = void (*)(void* sums, const void* row, const void* factor, std::int64_t count);

/// `type`: a number type other than 8-bit floats.
RowCombiner find_row_combiner(Combine combine, DType type);

}  // namespace sinter::runtime::cpu
