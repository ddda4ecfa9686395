// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/source.h"

#include <string_view>
#include <vector>

#include "runtime/format_error.h"
#include "runtime/grammar/pattern/pattern.h"
#include "runtime/grammar/schema/converter.h"
#include "runtime/grammar/schema/rules.h"
#include "runtime/grammar/schema/values.h"

namespace sinter::grammar {
namespace {

using Kind = Constraint::Kind;

constexpr int kMostNesting = 64;  // maximum nesting of parentheses in a grammar

std::string grammar_of_choices(const std::vector<std::string>& choices) {
  if (choices.empty()) throw usage_error("there is nothing to choose from");
  std::vector<Expr> ways;
  for (const std::string& choice : choices) {
    if (choice.find('\0') != std::string::npos) throw usage_error("one has a byte of 0");
    ways.push_back(Expr::literal(choice));
  }
  Rules rules;
  rules.add(Expr::choice(std::move(ways)));
  return rules.ebnf().value();  // never empty: each choice is a text
}

std::string grammar_of_expression(const std::string& text) {
  Rules rules;
  rules.add(expr_of(parse_pattern(text, Anchoring::kWhole), Spelling::kPlain));
  if (auto grammar = rules.ebnf()) return std::move(*grammar);
  throw usage_error("no text matches it");
}

std::string grammar_of_schema(const std::string& text) { return Converter(parsed(text)).run(); }

/// Limits nesting, because the library parses recursively.
void check_nesting(std::string_view grammar) {
  int depth = 0;
  char inside = 0;  // the delimiter that ends the current string or character class
  for (std::size_t i = 0; i < grammar.size(); ++i) {
    const char c = grammar[i];
    if (inside == '\n') {
      if (c == '\n' || c == '\r') inside = 0;
    } else if (inside != 0) {
      if (c == '\\')
        ++i;
      else if (c == inside)
        inside = 0;
    } else if (c == '"' || c == '#' || c == '[') {
      inside = c == '"' ? '"' : c == '#' ? '\n' : ']';
    } else if (c == '(' || c == '{') {
      if (++depth > kMostNesting)
        throw usage_error("it has more than {} parentheses in each other", kMostNesting);
    } else if (c == ')' || c == '}') {
      --depth;
    }
  }
}

/// Replaces schemas, expressions and choices in a tag by grammars.
void replace_in_tag(value& part) {
  if (part.is<picojson::array>())
    for (value& each : part.get<picojson::array>()) replace_in_tag(each);
  if (!part.is<Members>()) return;
  auto& object = part.get<Members>();
  const auto text_at = [&](const char* key) -> std::string {
    return has(object, key) && object.at(key).is<std::string>() ? object.at(key).get<std::string>()
                                                                : "";
  };
  const std::string type = text_at("type");
  const auto replace = [&](const char* key, std::string grammar) {
    object.erase(key);
    object["type"] = value(std::string("grammar"));
    object["grammar"] = value(std::move(grammar));
  };
  if (type == "json_schema" && has(object, "json_schema")) {
    std::string grammar =
        with_context("its JSON schema", [&] { return Converter(object.at("json_schema")).run(); });
    const std::string style = text_at("style");
    // Other styles have their own syntax for values; the schema itself is checked above.
    if (style.empty() || style == "json") replace("json_schema", std::move(grammar));
    object.erase("style");
    if (!style.empty() && style != "json") object["style"] = value(style);
    return;
  }
  if (type == "qwen_xml_parameter" && has(object, "json_schema")) {
    Converter(object.at("json_schema")).run();
    return;
  }
  if (type == "regex" && has(object, "pattern") && object.at("pattern").is<std::string>())
    return replace("pattern", grammar_of_expression(text_at("pattern")));
  if (type == "grammar") return check_nesting(text_at("grammar"));
  for (auto& [key, each] : object) replace_in_tag(each);
}

}  // namespace

Source source_of(const Constraint& constraint) {
  const Kind kind = constraint.kind;
  if (kind != Kind::kChoice && !constraint.choices.empty())
    throw usage_error("choices are of a constraint of that kind");
  const bool has_text = kind != Kind::kChoice && kind != Kind::kJsonObject;
  if (!has_text && !constraint.text.empty()) throw usage_error("it takes no text");
  if (has_text && constraint.text.empty()) throw usage_error("it is empty");
  switch (kind) {
    case Kind::kJsonObject: return {false, grammar_of_schema(R"({"type": "object"})")};
    case Kind::kJsonSchema: return {false, grammar_of_schema(constraint.text)};
    case Kind::kChoice: return {false, grammar_of_choices(constraint.choices)};
    case Kind::kRegex: return {false, grammar_of_expression(constraint.text)};
    case Kind::kStructuralTag: {
      value tag = parsed(constraint.text);
      replace_in_tag(tag);
      return {true, tag.serialize()};
    }
    case Kind::kGrammar: break;
  }
  check_nesting(constraint.text);
  return {false, constraint.text};
}

}  // namespace sinter::grammar
