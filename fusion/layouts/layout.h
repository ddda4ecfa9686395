// SPDX-License-Identifier: Apache-2.0
// Memory layouts of values.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A layout: stored dimension i is dimension perm[i] of the value.
using Perm = Ints;

/// The model's layout.
Perm identity_perm(std::size_t rank);
/// [n, c, d..] stored as [n, d.., c].
Perm last_perm(std::size_t rank);

bool is_identity(const Perm& perm);
/// Entry i of the result is values[perm[i]]; if `values` is a layout, its composition with `perm`.
template <typename T>
std::vector<T> permuted(const std::vector<T>& values, const Perm& perm) {
  std::vector<T> result;
  for (const std::int64_t d : perm) result.push_back(values[static_cast<std::size_t>(d)]);
  return result;
}

/// The dimensions of more than one element in stored order: layouts with the same stored order are
/// equal in memory.
Perm stored_order(const Shape& shape, const Perm& perm);

/// Layouts between which a reshape moves nothing: `before` of the operand, `after` of the result.
struct ReshapeLayouts {
  Perm before, after;
};
/// The nearest such layouts to `perm` of the operand: dimensions that the reshape joins or splits
/// together become adjacent, in order. Nothing if symbolic sizes leave this undecided.
std::optional<ReshapeLayouts> through_reshape(const Shape& from, const Shape& to, const Perm& perm);

}  // namespace sinter::fusion
