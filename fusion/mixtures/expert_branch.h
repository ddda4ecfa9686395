// SPDX-License-Identifier: Apache-2.0
// One expert of a mixture that is written as a loop over experts: the rows of tokens that chose it
// are selected, computed and added to the result.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusion/mixtures/elements.h"

namespace sinter::fusion {

struct ExpertBranch {
  const Node* scatter = nullptr;
  const Node* select = nullptr;
  ValueId rows;     // what is added, [selected, size]
  Dim selected;     // how many choices are this expert
  ValueId choices;  // [tokens, chosen], or [tokens] of one each
  std::int64_t expert = 0, chosen = 0;
  Dim tokens;
  Dim token, slot;  // of a selected choice, as `elements` names them
  Elements elements;
};

/// Selections by the symbols of their sizes.
using Selections = std::map<std::string, const Node*, std::less<>>;
Selections selections(const Graph& graph);

/// The branch that ends in `scatter`. `why`: why it is none though it adds rows that the run
/// selects.
std::optional<ExpertBranch> find_branch(const Graph& graph, const Selections& selections,
                                        const Node& scatter, std::string& why);

}  // namespace sinter::fusion
