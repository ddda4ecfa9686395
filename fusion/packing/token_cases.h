// SPDX-License-Identifier: Apache-2.0
// The value of an element for a token and for padding, as a mask among the model's inputs
// distinguishes them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// An element that depends on one element of an input [batch, sequence] of 0 and 1, or on none.
struct TokenCases {
  ValueId mask;            // invalid if it depends on none; both cases are then equal
  std::vector<Dim> index;  // of the mask's element
  Tensor absent, present;  // the element for mask 0 and for mask 1; of rank 0

  bool is_constant() const { return !mask.valid(); }
};

/// The element of `value` at `index` (one Dim per dimension, over symbols with `ranges`), traced
/// through views, gathers at counted indices, and pointwise operators. Nothing if it depends on
/// anything else.
std::optional<TokenCases> token_cases(const Graph& graph, ValueId value, std::span<const Dim> index,
                                      const Ranges& ranges);

}  // namespace sinter::fusion
