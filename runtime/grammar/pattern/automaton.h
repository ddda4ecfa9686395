// SPDX-License-Identifier: Apache-2.0
// Sets of texts as deterministic automata, for sets that a pattern cannot express, such as "this,
// except those names".
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "runtime/grammar/pattern/pattern.h"

namespace sinter::grammar {

/// A deterministic automaton. Every state reaches an accepted text; it is empty if there is none.
struct Automaton {
  struct Edge {
    Characters characters;
    int to;
  };
  struct State {
    std::vector<Edge> edges;  // one for each target state
    bool accepts = false;
  };
  std::vector<State> states;  // the first is the start state
};

/// Accepts the texts that match all of `all` and none of `none`; without states if there are none.
/// Throws Error(kUsage) if the automaton is too large.
Automaton automaton_of(const std::vector<const Pattern*>& all,
                       const std::vector<const Pattern*>& none);
inline bool is_empty(const Automaton& automaton) { return automaton.states.empty(); }
bool accepts(const Automaton& automaton, std::string_view text);

/// Decimal numbers without sign and leading zeros that are multiples of `divisor`.
Automaton multiples_of(int divisor);
Automaton both(const Automaton& one, const Automaton& other);

}  // namespace sinter::grammar
