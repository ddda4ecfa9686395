// SPDX-License-Identifier: Apache-2.0
// Activations of recurrent layers, which have their own parameters and defaults.
#pragma once

#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// An activation by its ONNX name, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

/// Activations of all directions in order: from attribute 'activations', or `fallback` for each
/// direction.
std::vector<Activation> read_activations(NodeContext& node, std::vector<std::string> fallback,
                                         std::size_t directions);

/// activation(x).
ValueId apply(NodeContext& node, const Activation& activation, ValueId x);

}  // namespace sinter::frontend
