// Weights that a model keeps in few bits, as exporters spell what they are worth.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "fusion/context.h"
#include "fusion/patterns/matcher.h"

namespace sinter::fusion {

/// A number that is the same everywhere, or an element for each element of the weights.
struct Term {
  std::optional<Element> element;
  double number = 0;
};

/// weight = (w - zero) * scale + shift, element by element over the index of the value that was
/// matched; w is of 8 bits.
struct Dequantization {
  std::string_view spelling;
  Element weight;
  std::optional<Term> zero, scale, shift;
  bool divides = false;  // by `scale`
};

/// What `value` is a dequantization of, if any spelling of dequantization.cpp matches and
/// `is_known` holds for all that it is made of.
std::optional<Dequantization> match_dequantization(const Graph& graph, ValueId value,
                                                   const std::function<bool(ValueId)>& is_known);

}  // namespace sinter::fusion
