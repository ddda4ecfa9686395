// SPDX-License-Identifier: Apache-2.0
// Compensates rounding errors of 8-bit weights and of activations by other weights (GPTQ).
#pragma once

#include <cstddef>
#include <span>

#include "fusion/calibration/trial.h"
#include "fusion/context.h"
#include "fusion/scales/choice/operands.h"

namespace sinter::fusion {

/// A layer with rounded operands.
struct RoundedLayer {
  std::size_t node_index = 0;           // index of its node, which has one result
  Tensor exact;                         // weights [k, n] of a matmul; otherwise empty
  ir::ScaledTensor* weights = nullptr;  // a matmul's numbers are replaced, scales are kept
};

/// Rounds the weights of matmuls again, layer by layer in the graph's order, for the least output
/// error (round_compensated). The inputs are rounded activations, computed by preceding layers that
/// are already rounded. `add` builds layers in their current state. Throws Error(kUsage) for
/// samples that make activations infinite.
void compensate(const Graph& graph, const Calibration& calibration,
                std::span<const RoundedLayer> layers, const AddRoundedLayer& add);

}  // namespace sinter::fusion
