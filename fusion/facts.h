// SPDX-License-Identifier: Apache-2.0
// What passes promise about a graph, and rely on. Nothing else says why a pass stands where it
// does.
#pragma once

#include <string>
#include <string_view>

#include "fusion/context.h"

namespace sinter::fusion {

/// Something that holds of a graph behind the pass that establishes it.
struct Fact {
  std::string_view name;
  /// What contradicts it, with the node; empty if it holds. Does not change the context.
  std::string (*violation)(const Graph& graph, const Context& context);
  /// True: it holds until the end. False: it holds directly after its pass; later passes may break
  /// it, and passes that need it accept that.
  bool lasts = false;
};

namespace facts {

/// Recurrent layers and users' operators are left only where the target has a kernel for them.
extern const Fact kBodiesExpanded;
/// Every pair of context.states is a state of the graph.
extern const Fact kStatesFound;
/// Weights in few bits are operands of matmuls and Gathers, not arithmetic in front of them.
extern const Fact kWeightsRead;
/// No node is left whose value is known, unless it is larger than what it is made of.
extern const Fact kConstantsFolded;
/// Exporters' spellings of norms, activations and softmax are those operators.
extern const Fact kIdiomsRecognised;
/// Values have the types of context.precision.
extern const Fact kPrecisionLowered;
/// The rules of simplify change nothing.
extern const Fact kSimplified;
/// Matmuls and convolutions of dequantized operands of 8 bits multiply these operands.
extern const Fact kEightBitOperandsFound;
/// Attention that is spelled out is Attention, where the target has a kernel for it.
extern const Fact kAttentionFound;
/// No composite is left, and no library operator that the target has not.
extern const Fact kDecomposed;
/// Values lie as they will in memory, and convolutions have the target's layout.
extern const Fact kLayoutsAssigned;
/// Matmuls of one activation are one, and their constant weights lie as kernels read them.
extern const Fact kWeightsLaidOut;
/// Every node is a kernel, a loop, an extent or a Reshape.
extern const Fact kAllFused;

}  // namespace facts

}  // namespace sinter::fusion
