// Memory orders of values.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A layout: dimension i of what is stored is dimension perm[i] of the value.
using Perm = Ints;

/// As the model has it.
Perm identity_perm(std::size_t rank);
/// [n, c, d..] stored as [n, d.., c].
Perm last_perm(std::size_t rank);

bool is_identity(const Perm& perm);
/// Entry i of the result is values[perm[i]]; with `values` a layout, that seen through `perm`.
template <typename T>
std::vector<T> permuted(const std::vector<T>& values, const Perm& perm) {
  std::vector<T> result;
  for (const std::int64_t d : perm) result.push_back(values[static_cast<std::size_t>(d)]);
  return result;
}

/// The dimensions of more than one element, in the order in which `perm` stores them: values in
/// layouts that agree in this lie alike.
Perm stored_order(const Shape& shape, const Perm& perm);

/// The layouts in which a reshape moves nothing: `after` of its result if its operand has `before`.
struct ReshapeLayouts {
  Perm before, after;
};
/// Those nearest to an operand in layout `perm`: dimensions that the reshape joins or splits
/// together come to stand together, in order. Nothing where sizes are too symbolic to tell.
std::optional<ReshapeLayouts> through_reshape(const Shape& from, const Shape& to, const Perm& perm);

}  // namespace sinter::fusion
