// SPDX-License-Identifier: Apache-2.0
// Interleaves columns into the rows of a tensor.
#pragma once

#include <span>

#include <sinter/dtype.h>
#include <sinter/tensor.h>

#include "runtime/arrow/column.h"

namespace sinter::arrow {

/// Whether BatchOptions::cast converts elements of `from` to `to`.
bool can_cast(DType from, DType to);

enum class NullValue { kZero, kNaN };

/// Writes the columns side by side into `to`, which is dense, in host memory, and as wide as all
/// columns together. Elements are converted where types differ (can_cast). Nulls become `null`;
/// only floats have NaN. At most `threads` threads of the process's pool take part.
void write_columns(std::span<const Column> columns, const MutableTensorView& to, NullValue null,
                   int threads);
/// Writes 1 for an element and 0 for a null instead; `to` has any type.
void write_validity(std::span<const Column> columns, const MutableTensorView& to, int threads);

}  // namespace sinter::arrow
