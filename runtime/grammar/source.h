// SPDX-License-Identifier: Apache-2.0
// Converts constraints to EBNF grammars for xgrammar.
#pragma once

#include <string>

#include <sinter/engine.h>

namespace sinter::grammar {

/// EBNF, or a structural tag that contains EBNF.
struct Source {
  bool is_tag = false;
  std::string text;
};

/// Converts schemas and expressions to EBNF and checks grammars of the client. Throws Error(kUsage)
/// with the reason. The nesting of the result is within xgrammar's limits.
Source source_of(const Constraint& constraint);

}  // namespace sinter::grammar
