// SPDX-License-Identifier: Apache-2.0
// States of fixed size that a decoder returns in place of what it was given.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The state of a LinearAttention, or the last inputs of a causal convolution.
struct DecoderState {
  ValueId input;   // of the graph
  int output = 0;  // index of the output that replaces it
  NodeId layer;    // the LinearAttention or the Conv
  /// The layer's own operand: [1, heads, key_size, value_size], or [1, channels, kept].
  ValueId state;
  ValueId rows;                // of a Conv: the inputs of the tokens, [1, channels, tokens]
  std::vector<NodeId> around;  // nodes between the input, the layer and the output

  bool is_conv() const { return rows.valid(); }
};

/// The state behind output `output` of a graph of batch 1.
std::optional<DecoderState> decoder_state(const Graph& graph, int output);

}  // namespace sinter::fusion
