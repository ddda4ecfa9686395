// SPDX-License-Identifier: Apache-2.0
// The places where flags are true, in order.
#pragma once

#include "frontend/ops/term.h"

namespace sinter::frontend {

struct Places {
  Dim count;   // found by the run
  Term index;  // [count] i64, ascending
};
/// `flags`: bool [length], of which `most` are true. `suffix` tells the sizes of a node apart.
Places places_of(NodeContext& node, const Term& flags, const std::string& suffix = {},
                 const std::optional<Dim>& most = {});

/// The numbers of dimensions of `shape` that row-major places stand for, each of the shape of
/// `places`.
std::vector<Term> unravelled(const Term& places, const Shape& shape);

}  // namespace sinter::frontend
