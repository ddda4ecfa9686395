// Products whose columns are a gate and what it opens, side by side (SwiGLU).
#pragma once

#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// The pointwise node in which both halves of a product's columns meet, each element with the one
/// at its place in the other half, or the Cast to a narrower type behind it; nothing if the halves
/// go other ways, or something else needs what lies between. `result`: of the product.
std::optional<NodeId> gate_of(const Graph& graph, ValueId result);

}  // namespace sinter::fusion
