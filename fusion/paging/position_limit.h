// How many positions the tables of a decoder have rows for.
#pragma once

#include <cstdint>
#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// `node` takes a row of a table by the position of each token.
struct PositionLimit {
  std::int64_t most = 0;  // positions that the table has rows for
  NodeId node;
};

/// The least of them in `paged`, a graph that page_caches made; nothing if no table has positions:
/// what import does for the first rows of a table (NodeContext::limit), here for those that
/// positions choose.
std::optional<PositionLimit> position_limit(const Graph& paged);

}  // namespace sinter::fusion
