// SPDX-License-Identifier: Apache-2.0
#include "ir/dim/dim_mismatch.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::ir {

Shape broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank, Dim(1));
  for (std::size_t i = 0; i < rank; ++i) {  // from the last dimension on
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Dim& out = result[rank - 1 - i];
    if (x == y || y == Dim(1)) {
      out = x;
    } else if (x == Dim(1)) {
      out = y;
    } else {
      throw DimMismatch(
          x, y,
          fmt::format("shapes {} and {} do not broadcast: dimensions {} and {} differ",
                      to_string(a), to_string(b), x.to_string(), y.to_string()));
    }
  }
  return result;
}

}  // namespace sinter::ir
