// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear with one scale, as nodes.
#pragma once

#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// A known number, maybe behind casts and reshapes.
std::optional<double> known_number(const Graph& graph, ValueId value);

/// For integers round(x / scale) + zero, for floats x / scale, saturated to 8 bits.
struct Quantization {
  ValueId x;
  double scale = 1, zero = 0;
};

/// The quantization by `node`, a Cast to 8 bits, with known numbers.
std::optional<Quantization> quantization_of(const Graph& graph, const Node& node);

}  // namespace sinter::fusion
