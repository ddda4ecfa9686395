// SPDX-License-Identifier: Apache-2.0
// Constraints as grammars in EBNF, which xgrammar compiles.
#pragma once

#include <string>

#include <sinter/engine.h>

namespace sinter::grammar {

/// EBNF, or a structural tag with such grammars in it.
struct Source {
  bool is_tag = false;
  std::string text;
};

/// Schemas and expressions become EBNF here; grammars of the client are looked at. Throws
/// Error(kUsage) with what is wrong: nothing that xgrammar reads is nested deeper than it can read.
Source source_of(const Constraint& constraint);

}  // namespace sinter::grammar
