// Products and convolutions that get operands of 8 bits, while they are chosen and rewritten.
#pragma once

#include <cstddef>
#include <vector>

#include "fusion/context.h"
#include "fusion/eight_bit/operands.h"

namespace sinter::fusion {

/// Layers that read one activation, which is rounded once for all of them.
struct ActivationGroup {
  ValueId activation;
  bool is_conv = false;
  std::vector<std::size_t> layers;
  ActivationScale scale;
};

/// A product or convolution whose operands are rounded.
struct EightBitLayer {
  std::size_t place = 0;  // of the node
  bool is_conv = false;
  bool has_four_bits = false;  // of weights, which stay as they are
  std::size_t group = 0;
  EightBitWeights weights;
  QuantizedLayer report;
};

struct EightBitProducts {
  std::vector<ActivationGroup> groups;
  std::vector<EightBitLayer> layers;  // in the graph's order
  std::vector<EightBitLayer> kept;    // that stay as they are, and why
};

}  // namespace sinter::fusion
