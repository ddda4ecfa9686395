// SPDX-License-Identifier: Apache-2.0
// A grammar as it is built, and as xgrammar's EBNF.
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

/// What a rule may be made of.
struct Expr {
  enum class Kind : std::uint8_t { kText, kRule, kSequence, kChoice, kRepeat };

  Kind kind = Kind::kSequence;  // of nothing: the empty text
  std::string text;             // kText: EBNF that has some text
  int rule = -1;
  std::vector<Expr> parts;
  std::int64_t least = 0, most = -1;  // kRepeat; -1: no end

  static Expr literal(std::string_view text);
  static Expr raw(std::string ebnf);
  static Expr of_rule(int rule);
  static Expr sequence(std::vector<Expr> parts);
  /// Of nothing: there is no such text.
  static Expr choice(std::vector<Expr> parts);
  static Expr none() { return choice({}); }
  bool is_none() const { return kind == Kind::kChoice && parts.empty(); }
  static Expr repeat(Expr part, std::int64_t least, std::int64_t most);
  static Expr optional(Expr part) { return repeat(std::move(part), 0, 1); }
};

/// How a character stands in a text.
enum class Spelling : std::uint8_t {
  kPlain,  // as itself
  kJson,   // within a JSON string: '"', '\\' and control characters by their one escape
};

Expr expr_of(const Pattern& pattern, Spelling spelling);

class Rules {
 public:
  /// A rule that is to be defined.
  int add();
  void define(int rule, Expr body);
  int add(Expr body);
  /// A text of the automaton.
  Expr expr_of(const Automaton& automaton, Spelling spelling);

  /// All rules that the first leads to, which is `root`. What has no text is left out; nothing if
  /// that is all. Throws Error(kUsage) if it is too large.
  std::optional<std::string> ebnf() const;
  std::size_t size() const { return bodies_.size(); }

 private:
  std::vector<Expr> bodies_;
};

}  // namespace sinter::grammar
