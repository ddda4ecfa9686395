// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/layout.h"

#include <algorithm>
#include <numeric>

#include "fusion/regions/broadcast.h"

namespace sinter::fusion {

Perm identity_perm(std::size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

Perm last_perm(std::size_t rank) {
  Perm perm = identity_perm(rank);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

bool is_identity(const Perm& perm) { return std::ranges::is_sorted(perm); }

Perm stored_order(const Shape& shape, const Perm& perm) {
  Perm order;
  for (const std::int64_t d : perm)
    if (!(shape[static_cast<std::size_t>(d)] == Dim(1))) order.push_back(d);
  return order;
}

std::optional<ReshapeLayouts> through_reshape(const Shape& from, const Shape& to,
                                              const Perm& perm) {
  const auto runs = reshape_runs(from, to);
  if (!runs) return std::nullopt;
  ReshapeLayouts result;
  const auto append = [&](const ReshapeRun& run) {
    for (std::size_t d = run.from; d < run.from_end; ++d)
      result.before.push_back(static_cast<std::int64_t>(d));
    for (std::size_t d = run.to; d < run.to_end; ++d)
      result.after.push_back(static_cast<std::int64_t>(d));
  };
  for (const std::int64_t dim : perm)
    for (const ReshapeRun& run : *runs)
      if (static_cast<std::size_t>(dim) == run.from && run.from != run.from_end) append(run);
  for (const ReshapeRun& run : *runs)
    if (run.from == run.from_end) append(run);
  return result;
}

}  // namespace sinter::fusion
