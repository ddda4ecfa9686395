// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema/rules.h"

#include <algorithm>
#include <utility>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

using Kind = Expr::Kind;

constexpr std::size_t kMostRules = 50'000;
constexpr std::size_t kMostText = std::size_t{4} << 20;
constexpr int kMostInlined = 24;  // maximum nesting of inlined states

[[noreturn]] void too_large() { throw usage_error("it is too large: say less at once"); }

bool is_simple(Character c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == ' ' ||
         c == '_' || c == ':' || c == ',' || c == '{' || c == '}';
}

std::string escaped(Character c) {
  return is_simple(c) ? std::string(1, static_cast<char>(c)) : fmt::format("\\U{:08x}", c);
}

std::string quoted(const std::vector<Character>& text) {
  std::string result = "\"";
  for (const Character c : text) result += escaped(c);
  return result + '"';
}

std::string set_of(const Characters& characters) {
  std::string result = "[";
  for (const auto& [first, last] : characters.ranges())
    result += first == last ? escaped(first) : escaped(first) + '-' + escaped(last);
  return result + ']';
}

/// Spells `characters` as in a JSON string.
std::string json_of(const Characters& characters) {
  static const Characters plain = (Characters({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})).complement();
  std::vector<std::string> forms;
  if (const Characters rest = characters & plain; !rest.empty()) forms.push_back(set_of(rest));
  constexpr std::pair<Character, const char*> kShort[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
      {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
  std::vector<Character> named;
  for (const auto& [c, escape] : kShort) {
    named.push_back(c);
    if (characters.contains(c)) forms.push_back(quoted(characters_of(escape)));
  }
  for (Character c = 0; c < 0x20; ++c)
    if (characters.contains(c) && std::ranges::find(named, c) == named.end())
      forms.push_back(quoted(characters_of(fmt::format("\\u{:04x}", c))));
  if (forms.size() == 1) return forms.front();
  return fmt::format("({})", fmt::join(forms, " | "));
}

std::string spelled(const Characters& characters, Spelling spelling) {
  if (spelling == Spelling::kJson) return json_of(characters);
  // The library refuses a byte of 0.
  return set_of(characters & Characters::of(0).complement());
}

}  // namespace

Expr Expr::literal(std::string_view text) {
  return text.empty() ? Expr() : raw(quoted(characters_of(text)));
}
Expr Expr::raw(std::string ebnf) { return {.kind = Kind::kText, .text = std::move(ebnf)}; }
Expr Expr::of_rule(int rule) { return {.kind = Kind::kRule, .rule = rule}; }
Expr Expr::sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kSequence, .parts = std::move(parts)};
}
Expr Expr::choice(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kChoice, .parts = std::move(parts)};
}
Expr Expr::repeat(Expr part, std::int64_t least, std::int64_t most) {
  if (most >= 0 && most < least) return none();
  if (most == 0) return {};
  if (least == 1 && most == 1) return part;
  Expr result{.kind = Kind::kRepeat, .least = least, .most = most};
  result.parts.push_back(std::move(part));
  return result;
}

Expr expr_of(const Pattern& pattern, Spelling spelling) {
  std::vector<Expr> parts;
  for (const Pattern& part : pattern.parts) parts.push_back(expr_of(part, spelling));
  switch (pattern.kind) {
    case Pattern::Kind::kCharacters: {
      const bool is_none = spelling == Spelling::kPlain
                               ? (pattern.characters & Characters::of(0).complement()).empty()
                               : pattern.characters.empty();
      return is_none ? Expr::none() : Expr::raw(spelled(pattern.characters, spelling));
    }
    case Pattern::Kind::kSequence: return Expr::sequence(std::move(parts));
    case Pattern::Kind::kChoice: return Expr::choice(std::move(parts));
    case Pattern::Kind::kRepeat:
      return Expr::repeat(std::move(parts.front()), pattern.least, pattern.most);
    default: throw internal_error("an anchor is left");
  }
}

int Rules::add() {
  if (bodies_.size() >= kMostRules) too_large();
  bodies_.emplace_back();
  return static_cast<int>(bodies_.size()) - 1;
}
void Rules::define(int rule, Expr body) {
  bodies_[static_cast<std::size_t>(rule)] = std::move(body);
}
int Rules::add(Expr body) {
  const int rule = add();
  define(rule, std::move(body));
  return rule;
}

namespace {

/// States with one incoming edge are inlined; others become rules.
class AutomatonRules {
 public:
  AutomatonRules(const Automaton& automaton, Spelling spelling, Rules& rules)
      : automaton_(automaton), spelling_(spelling), rules_(rules) {
    rule_of_.assign(automaton.states.size(), -1);
    std::vector<int> sources(automaton.states.size());
    for (const auto& state : automaton.states)
      for (const auto& edge : state.edges) ++sources[static_cast<std::size_t>(edge.to)];
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (sources[i] > 1 || (i == 0 && sources[i] > 0)) make_rule(static_cast<int>(i));
  }

  Expr run() {
    Expr first = refer(0, 0);
    while (!open_.empty()) {
      const int state = open_.back();
      open_.pop_back();
      rules_.define(rule_of_[static_cast<std::size_t>(state)], body(state, 0));
    }
    return first;
  }

 private:
  int make_rule(int state) {
    int& rule = rule_of_[static_cast<std::size_t>(state)];
    rule = rules_.add();
    open_.push_back(state);
    return rule;
  }
  Expr refer(int state, int depth) {
    int rule = rule_of_[static_cast<std::size_t>(state)];
    if (rule < 0 && depth < kMostInlined) return body(state, depth + 1);
    if (rule < 0) rule = make_rule(state);
    return Expr::of_rule(rule);
  }
  Expr body(int number, int depth) {
    const auto& state = automaton_.states[static_cast<std::size_t>(number)];
    std::vector<Expr> ways;
    if (state.accepts) ways.emplace_back();
    for (const auto& edge : state.edges) {
      Expr one = Expr::raw(spelled(edge.characters, spelling_));
      const auto& next = automaton_.states[static_cast<std::size_t>(edge.to)];
      if (next.edges.empty())
        ways.push_back(std::move(one));
      else
        ways.push_back(Expr::sequence({std::move(one), refer(edge.to, depth)}));
    }
    return Expr::choice(std::move(ways));
  }

  const Automaton& automaton_;
  Spelling spelling_;
  Rules& rules_;
  std::vector<int> rule_of_, open_;
};

/// Determines which rules match a text, and prints them.
class Printer {
 public:
  explicit Printer(const std::vector<Expr>& bodies)
      : bodies_(bodies), has_text_(bodies.size()), path_(bodies.size()) {
    // Fixpoint: marks rules that match a text by what is known so far. Backwards, since most rules
    // refer to later ones.
    for (bool changes = true; changes;) {
      changes = false;
      for (std::size_t i = bodies.size(); i-- > 0;)
        if (!has_text_[i] && has_text(bodies[i])) has_text_[i] = changes = true;
    }
  }

  std::optional<std::string> run() {
    if (!has_text_[0]) return std::nullopt;
    reach(0);
    std::string result;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const int rule = order_[i];
      begin_ = rule;
      result += name_of(rule) + " ::= ";
      print(bodies_[static_cast<std::size_t>(rule)], true, result);
      result += '\n';
      if (result.size() > kMostText) too_large();
    }
    return result;
  }

 private:
  static std::string name_of(int rule) { return rule == 0 ? "root" : fmt::format("r{}", rule); }

  bool has_text(const Expr& expr) const {
    switch (expr.kind) {
      case Kind::kText: return true;
      case Kind::kRule: return has_text_[static_cast<std::size_t>(expr.rule)];
      case Kind::kSequence:
        return std::ranges::all_of(expr.parts, [&](const Expr& part) { return has_text(part); });
      case Kind::kChoice:
        return std::ranges::any_of(expr.parts, [&](const Expr& part) { return has_text(part); });
      case Kind::kRepeat: return expr.least == 0 || has_text(expr.parts.front());
    }
    return false;
  }

  void reach(int rule) {
    if (path_[static_cast<std::size_t>(rule)]) return;
    path_[static_cast<std::size_t>(rule)] = true;
    order_.push_back(rule);
  }

  /// Whether `expr`, alone in an alternative, is `rule` itself: such an alternative adds nothing.
  bool is_itself(const Expr& expr, int rule, int steps) const {
    if (steps == 0) return false;
    if (expr.kind == Kind::kRule)
      return expr.rule == rule ||
             is_itself(bodies_[static_cast<std::size_t>(expr.rule)], rule, steps - 1);
    return expr.kind == Kind::kChoice && expr.parts.size() == 1 &&
           is_itself(expr.parts.front(), rule, steps - 1);
  }

  /// `is_alone`: the expression is not part of a sequence.
  void print(const Expr& expr, bool is_alone, std::string& out) {
    if (out.size() > kMostText) too_large();
    switch (expr.kind) {
      case Kind::kText: out += expr.text; return;
      case Kind::kRule:
        reach(expr.rule);
        out += name_of(expr.rule);
        return;
      case Kind::kSequence: {
        if (expr.parts.empty()) {
          out += "\"\"";
          return;
        }
        for (std::size_t i = 0; i < expr.parts.size(); ++i) {
          if (i > 0) out += ' ';
          print(expr.parts[i], false, out);
        }
        return;
      }
      case Kind::kChoice: {
        std::vector<const Expr*> ways;
        for (const Expr& part : expr.parts)
          if (has_text(part) && !(is_alone && is_itself(part, begin_, 64))) ways.push_back(&part);
        if (ways.size() == 1) return print(*ways.front(), is_alone, out);
        if (!is_alone) out += '(';
        for (std::size_t i = 0; i < ways.size(); ++i) {
          if (i > 0) out += " | ";
          print(*ways[i], is_alone, out);
        }
        if (!is_alone) out += ')';
        return;
      }
      case Kind::kRepeat: {
        if (!has_text(expr.parts.front())) {
          out += "\"\"";
          return;
        }
        const Expr& part = expr.parts.front();
        const bool is_atom = part.kind == Kind::kText || part.kind == Kind::kRule;
        if (!is_atom) out += '(';
        print(part, false, out);
        if (!is_atom) out += ')';
        if (expr.least == 0 && expr.most == 1)
          out += '?';
        else if (expr.least == 0 && expr.most < 0)
          out += '*';
        else if (expr.most < 0)
          out += fmt::format("{{{},}}", expr.least);
        else
          out += fmt::format("{{{},{}}}", expr.least, expr.most);
        return;
      }
    }
  }

  const std::vector<Expr>& bodies_;
  std::vector<bool> has_text_, path_;
  std::vector<int> order_;
  int begin_ = 0;
};

}  // namespace

Expr Rules::expr_of(const Automaton& automaton, Spelling spelling) {
  if (is_empty(automaton)) return Expr::none();
  return AutomatonRules(automaton, spelling, *this).run();
}

std::optional<std::string> Rules::ebnf() const { return Printer(bodies_).run(); }

}  // namespace sinter::grammar
