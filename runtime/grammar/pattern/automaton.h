// SPDX-License-Identifier: Apache-2.0
// Sets of texts as deterministic automata: for what patterns cannot say alone, as "this, but none
// of those names".
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "runtime/grammar/pattern/pattern.h"

namespace sinter::grammar {

/// Every state leads to an accepted text; there is none if there is no such text.
struct Automaton {
  struct Edge {
    Characters characters;
    int to;
  };
  struct State {
    std::vector<Edge> edges;  // by where they lead
    bool accepts = false;
  };
  std::vector<State> states;  // the first is where texts begin
};

/// Texts that all of `all` have and none of `none`: without states if there is none. Throws
/// Error(kUsage) if that takes too much.
Automaton automaton_of(const std::vector<const Pattern*>& all,
                       const std::vector<const Pattern*>& none);
inline bool is_empty(const Automaton& automaton) { return automaton.states.empty(); }
bool accepts(const Automaton& automaton, std::string_view text);

/// Decimal numbers without a sign and leading zeros that `divisor` divides.
Automaton multiples_of(int divisor);
Automaton both(const Automaton& one, const Automaton& other);

}  // namespace sinter::grammar
