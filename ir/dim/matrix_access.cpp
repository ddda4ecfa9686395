// SPDX-License-Identifier: Apache-2.0
#include "ir/dim/matrix_access.h"

namespace sinter::ir {
namespace {

/// Elements contiguous along `unit`, with a stride of `other` beyond them.
bool lies_along(const Walk& unit, const Walk& other, const Ranges& ranges) {
  if (other.extent == Dim(1))
    return unit.extent == Dim(1) || proves_le(Dim(1), unit.stride, ranges);
  return unit.stride == Dim(1) && proves_le(unit.extent, other.stride, ranges);
}

}  // namespace

bool is_addressable(const Walk& rows, const Walk& columns, const Ranges& ranges) {
  return lies_along(columns, rows, ranges) || lies_along(rows, columns, ranges);
}

}  // namespace sinter::ir
