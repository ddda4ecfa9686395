// SPDX-License-Identifier: Apache-2.0
// Stream compaction: the positions of true flags, in order.
#pragma once

#include "frontend/ops/term.h"

namespace sinter::frontend {

struct Places {
  Dim count;   // determined by the run
  Term index;  // [count] i64, ascending
};
/// `flags`: bool [length], at most `most` of them true. `suffix` distinguishes several sizes of a
/// node.
Places places_of(NodeContext& node, const Term& flags, const std::string& suffix = {},
                 const std::optional<Dim>& most = {});

/// Converts row-major positions in `shape` to an index tensor per dimension, each with the shape of
/// `places`.
std::vector<Term> unravelled(const Term& places, const Shape& shape);

}  // namespace sinter::frontend
