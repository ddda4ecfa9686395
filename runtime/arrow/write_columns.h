// SPDX-License-Identifier: Apache-2.0
// Columns side by side into the rows of a tensor.
#pragma once

#include <span>

#include <sinter/dtype.h>
#include <sinter/tensor.h>

#include "runtime/arrow/column.h"

namespace sinter::arrow {

/// Whether BatchOptions::cast converts elements of `from` to `to`.
bool can_cast(DType from, DType to);

enum class NullValue { kZero, kNaN };

/// Writes a row of all columns into each row of `to`, which is dense, in host memory, and as wide
/// as the columns are together; elements are converted where types differ (can_cast). Nulls, of
/// which only floats have NaN, become `null`. At most `threads` threads of the process's pool take
/// part.
void write_columns(std::span<const Column> columns, const MutableTensorView& to, NullValue null,
                   int threads);
/// The same for 1 where an element is there and 0 where it is null; `to` of any type.
void write_validity(std::span<const Column> columns, const MutableTensorView& to, int threads);

}  // namespace sinter::arrow
