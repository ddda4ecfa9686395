// SPDX-License-Identifier: Apache-2.0
// Matmuls and convolutions with 8-bit operands, while they are chosen and rewritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusion/context.h"
#include "fusion/scales/choice/operands.h"

namespace sinter::fusion {

/// Layers that read one activation, which is rounded once for all.
struct ActivationGroup {
  ValueId activation;
  bool is_conv = false;
  std::vector<std::size_t> layers;
  ActivationScale scale;
};

/// A matmul or convolution with rounded operands.
struct EightBitLayer {
  std::size_t node_index = 0;  // index of the node
  bool is_conv = false;
  bool has_four_bits = false;  // 4-bit weights, which stay unchanged
  std::int64_t groups = 0;     // of a grouped matmul, whose weights are one matrix's here
  std::size_t group = 0;
  ir::ScaledTensor weights;  // rows are output channels
  QuantizedLayer report;
};

struct EightBitProducts {
  std::vector<ActivationGroup> groups;
  std::vector<EightBitLayer> layers;  // in the graph's order
  std::vector<EightBitLayer> kept;    // unchanged layers, with reasons
};

}  // namespace sinter::fusion
