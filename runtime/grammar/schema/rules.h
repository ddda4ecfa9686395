// SPDX-License-Identifier: Apache-2.0
// A grammar under construction, and its text in xgrammar's EBNF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/grammar/pattern/automaton.h"
#include "runtime/grammar/pattern/pattern.h"

namespace sinter::grammar {

/// An expression of a rule's body.
struct Expr {
  enum class Kind : std::uint8_t { kText, kRule, kSequence, kChoice, kRepeat };

  Kind kind = Kind::kSequence;  // without parts: the empty text
  std::string text;             // kText: EBNF that matches a text
  int rule = -1;
  std::vector<Expr> parts;
  std::int64_t least = 0, most = -1;  // kRepeat; -1: unbounded

  static Expr literal(std::string_view text);
  static Expr raw(std::string ebnf);
  static Expr of_rule(int rule);
  static Expr sequence(std::vector<Expr> parts);
  /// Without parts it matches no text.
  static Expr choice(std::vector<Expr> parts);
  static Expr none() { return choice({}); }
  bool is_none() const { return kind == Kind::kChoice && parts.empty(); }
  static Expr repeat(Expr part, std::int64_t least, std::int64_t most);
  static Expr optional(Expr part) { return repeat(std::move(part), 0, 1); }
};

/// Spelling of a character in generated text.
enum class Spelling : std::uint8_t {
  kPlain,  // the character itself
  kJson,   // within a JSON string: '"', '\\' and control characters by their one escape
};

Expr expr_of(const Pattern& pattern, Spelling spelling);

class Rules {
 public:
  /// Adds a rule that define() completes.
  int add();
  void define(int rule, Expr body);
  int add(Expr body);
  /// An expression for the automaton's texts.
  Expr expr_of(const Automaton& automaton, Spelling spelling);

  /// The rules reachable from the first, which is `root`. Omits alternatives that match no text;
  /// nullopt if nothing remains. Throws Error(kUsage) if the text is too large.
  std::optional<std::string> ebnf() const;
  std::size_t size() const { return bodies_.size(); }

 private:
  std::vector<Expr> bodies_;
};

}  // namespace sinter::grammar
