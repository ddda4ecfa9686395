// SPDX-License-Identifier: Apache-2.0
// Matrices as GEMM libraries address them.
#pragma once

#include "ir/dim/dim.h"

namespace sinter::ir {

/// Elements with a stride.
struct Walk {
  Dim extent, stride;
};

/// True if elements are contiguous along rows or columns, and the stride of the other is at least
/// that extent. The stride of a single row or column is arbitrary but positive.
bool is_addressable(const Walk& rows, const Walk& columns, const Ranges& ranges);

}  // namespace sinter::ir
