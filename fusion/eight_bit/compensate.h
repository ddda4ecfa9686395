// Weights of 8 bits that make up for what rounding leaves of each other, and of activations.
#pragma once

#include <cstddef>
#include <span>

#include "fusion/calibration/trial.h"
#include "fusion/context.h"
#include "fusion/eight_bit/operands.h"

namespace sinter::fusion {

/// A layer whose operands are rounded.
struct RoundedLayer {
  std::size_t place = 0;               // of its node, of one result, in the graph
  Tensor exact;                        // of a product: its weights [k, n]; else nothing
  EightBitWeights* weights = nullptr;  // of which products get other numbers with the same scales
};

/// Rounds the weights of products again, one layer after the other in the graph's order, so that
/// their results are off by least (round_compensated) for the activations that they will read:
/// rounded themselves, and made by the layers in front, which are rounded already. `add` builds
/// layers as they are now. Throws Error(kUsage) for samples that make activations infinite.
void compensate(const Graph& graph, const Calibration& calibration,
                std::span<const RoundedLayer> layers, const AddRoundedLayer& add);

}  // namespace sinter::fusion
