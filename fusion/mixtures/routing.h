// SPDX-License-Identifier: Apache-2.0
// How the experts of each token were chosen: Route in other words.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

struct Routing {
  ValueId logits, bias;  // [tokens, experts]; [experts], or invalid
  Attrs attrs;           // of the Route
};

/// The Route that gives `choices` and `shares`, both [tokens, chosen]; nothing if there is none.
std::optional<Routing> find_routing(const Graph& graph, ValueId choices, ValueId shares);
/// Its choices i32 and shares. `bias`: of no meaning without one.
std::vector<ValueId> add_route(GraphBuilder& builder, const Routing& routing, ValueId logits,
                               ValueId bias);

}  // namespace sinter::fusion
