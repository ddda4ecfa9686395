// What an element of a value is where a mask of the model's inputs says that there is a token, and
// where it says that there is none.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// An element that follows from one element of an input [batch, sequence] of 0 and 1, or from none.
struct TokenCases {
  ValueId mask;            // invalid: from none, and both cases are one
  std::vector<Dim> index;  // of the mask's element
  Tensor absent, present;  // the element where that is 0, and where it is 1; of rank 0

  bool is_constant() const { return !mask.valid(); }
};

/// The element of `value` at `index` (one Dim per dimension, over symbols with `ranges`), followed
/// through views, gathers at places that are counted, and pointwise operators; nothing if it
/// depends on anything else.
std::optional<TokenCases> token_cases(const Graph& graph, ValueId value, std::span<const Dim> index,
                                      const Ranges& ranges);

}  // namespace sinter::fusion
