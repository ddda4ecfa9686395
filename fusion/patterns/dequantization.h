// SPDX-License-Identifier: Apache-2.0
// Matches exporters' spellings of dequantized weights.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "fusion/context.h"
#include "fusion/patterns/matcher.h"

namespace sinter::fusion {

/// One number for all, or an element for each element of the weights.
struct Term {
  std::optional<Element> element;
  double number = 0;
};

/// weight = (w - zero) * scale + shift, elementwise over the index of the matched value; w has
/// integers of 8 bits, or floats of 8 that have 4 bits.
struct Dequantization {
  std::string_view spelling;
  Element weight;
  std::optional<Term> zero, scale, shift;
  bool divides = false;  // by `scale`
};

/// The dequantization that computes `value`, if a spelling of dequantization.cpp matches and
/// `is_known` holds for all of its values.
std::optional<Dequantization> match_dequantization(const Graph& graph, ValueId value,
                                                   const std::function<bool(ValueId)>& is_known);

}  // namespace sinter::fusion
