// SPDX-License-Identifier: Apache-2.0
// A Slice under construction.
#pragma once

#include <algorithm>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Builds a Slice; initially it keeps every dimension whole.
struct SliceSpec {
  explicit SliceSpec(const Shape& from)
      : starts(from.size(), Dim(0)), steps(from.size(), 1), shape(from) {}
  std::vector<Dim> starts;
  Ints steps;
  Shape shape;
};

inline ValueId add_slice(NodeContext& node, ValueId x, const SliceSpec& spec) {
  const bool whole = spec.shape == node.shape(x) &&
                     std::ranges::all_of(spec.steps, [](std::int64_t step) { return step == 1; });
  if (whole) return x;
  return node.add("Slice", {x},
                  {{"starts", spec.starts}, {"steps", spec.steps}, {"shape", spec.shape}});
}

}  // namespace sinter::frontend
