// SPDX-License-Identifier: Apache-2.0
// Gated units (SwiGLU): matmuls whose columns are a gate and the gated values, side by side.
#pragma once

#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// The pointwise node that combines both halves of a matmul's columns elementwise, or the Cast to a
/// narrower type after it. Nothing if the halves are used in other ways, or if an intermediate
/// value has other readers. `result`: of the matmul.
std::optional<NodeId> gate_of(const Graph& graph, ValueId result);

}  // namespace sinter::fusion
