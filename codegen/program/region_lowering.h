// SPDX-License-Identifier: Apache-2.0
// The values of a region's body as instructions of a loop program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "codegen/program/index_space.h"

namespace sinter::codegen {

/// Indices, by dimension of a space, at which another source of a view begins.
using Cuts = std::map<std::size_t, std::set<std::int64_t>>;

/// Lowers `body` over the loops of `space`, splitting loops to make accesses linear. `cuts`, if
/// given, receives those of the first attempt, before any split.
LoopProgramT lower_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                        LoopSpace space, Cuts* cuts = nullptr);

/// The same over exactly the loops of `space`, in their order. `wanted`: a split that would make an
/// address linear, if there is one; without it the address stays non-affine.
LoopProgramT lower_over_loops(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                              const LoopSpace& space, std::optional<SplitRequest>& wanted);

}  // namespace sinter::codegen
