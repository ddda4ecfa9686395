// QuantizeLinear with one scale, as nodes.
#pragma once

#include <optional>

#include "fusion/context.h"

namespace sinter::fusion {

/// One number that is known, perhaps behind casts and reshapes.
std::optional<double> known_number(const Graph& graph, ValueId value);

/// Of integers round(x / scale) + zero, of floats x / scale, saturated to 8 bits.
struct Quantization {
  ValueId x;
  double scale = 1, zero = 0;
};

/// What `node`, a Cast to 8 bits, quantizes, with numbers that are known.
std::optional<Quantization> quantization_of(const Graph& graph, const Node& node);

}  // namespace sinter::fusion
