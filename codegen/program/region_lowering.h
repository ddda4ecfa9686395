// The values of a region's body as instructions of a loop program.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "codegen/program/index_space.h"

namespace sinter::codegen {

/// Where along dimensions of a space another source of a view begins.
using Cuts = std::map<std::size_t, std::set<std::int64_t>>;

/// `body` over the loops of `space`, which are split where that makes accesses linear. `cuts`, if
/// given, receives those of the first attempt, whose loops are the whole dimensions.
LoopProgramT lower_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                        LoopSpace space, Cuts* cuts = nullptr);

}  // namespace sinter::codegen
