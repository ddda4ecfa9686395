// SPDX-License-Identifier: Apache-2.0
// The limit on positions from a decoder's position tables.
#pragma once

#include <cstdint>
#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// `node` gathers a table's row at each token's position.
struct PositionLimit {
  std::int64_t most = 0;  // rows of the table
  NodeId node;
};

/// The smallest limit in `paged`, a graph from page_caches; nothing without position tables. Import
/// handles tables whose first rows are sliced (NodeContext::limit); this handles tables indexed by
/// positions.
std::optional<PositionLimit> position_limit(const Graph& paged);

}  // namespace sinter::fusion
