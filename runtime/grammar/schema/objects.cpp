// SPDX-License-Identifier: Apache-2.0
// Objects: named properties in their order, then others.
#include <algorithm>
#include <limits>

#include "runtime/format_error.h"
#include "runtime/grammar/schema/converter.h"

namespace sinter::grammar {
namespace {

constexpr std::int64_t kMostCounted = 10'000;  // maximum rules that count one object's properties

const Members& members_at(const Place& place, const Members& object, const char* key) {
  if (!object.at(key).is<Members>()) refuse(place, fmt::format("'{}' is no object", key));
  return object.at(key).get<Members>();
}

bool accepts_all(const value& schema) {
  return (schema.is<bool>() && schema.get<bool>()) ||
         (schema.is<Members>() && schema.get<Members>().empty());
}

}  // namespace

struct Converter::Shape {
  struct Named {
    std::string name;
    Expr pair;  // key and value
    bool is_required;
  };
  std::vector<Named> named;
  std::vector<std::string> names;  // names in `properties` and `required`; other pairs must differ
  std::vector<Expr> extras;        // pairs
  const value* additional = nullptr;  // schema of names that nothing else covers; null: no such
                                      // names
  std::string additional_key;
  std::int64_t least = 0, most = -1;
};

/// Patterns of `propertyNames` that names must match; empty: any name.
std::vector<Pattern> Converter::name_patterns(const Place& place, const Members& object) const {
  if (!has(object, "propertyNames")) return {};
  const Place inner = place.inner(object.at("propertyNames"), "propertyNames");
  const value& schema = *inner.schema;
  if (accepts_all(schema)) return {};
  if (!schema.is<Members>()) refuse(inner, "as a name's schema this is not supported");
  const auto& names = schema.get<Members>();
  check_keywords(inner, names);
  if ((types_of(inner, names) & kString) == 0) refuse(inner, "names are texts");
  for (const std::string& key : names.ordered_keys())
    if (key == "$ref" || key == "anyOf" || key == "oneOf" || key == "allOf")
      refuse(inner, fmt::format("'{}' of a name is not supported", key));
  std::vector<Pattern> all = patterns_of(inner, names);
  if (has(names, "const") || has(names, "enum")) {
    const value& said = names.at(has(names, "const") ? "const" : "enum");
    std::vector<Pattern> ways;
    for (const value& one :
         said.is<picojson::array>() ? said.get<picojson::array>() : picojson::array{said})
      if (one.is<std::string>()) ways.push_back(Pattern::text(one.get<std::string>()));
    if (ways.empty()) refuse(inner, "no text is left for a name");
    all.push_back(Pattern::choice(std::move(ways)));
  }
  const auto least = count_of(inner, names, "minLength", 0);
  const auto most = count_of(inner, names, "maxLength", -1);
  if (std::max(least, most) > 5000) refuse(inner, "names are longer than 5000 characters");
  if (least > 0 || most >= 0) {
    if (most >= 0 && most < least) refuse(inner, "no text is left for a name");
    all.push_back(Pattern::repeat(Pattern::of(Characters::all()), static_cast<int>(least),
                                  static_cast<int>(most)));
  }
  return all;
}

Expr Converter::object(const Place& place, const Members& object) {
  Shape shape;
  shape.least = count_of(place, object, "minProperties", 0);
  shape.most = count_of(place, object, "maxProperties", -1);
  const char* of_rest = has(object, "additionalProperties")    ? "additionalProperties"
                        : has(object, "unevaluatedProperties") ? "unevaluatedProperties"
                                                               : "";
  const bool says_names = has(object, "properties") || has(object, "patternProperties");
  static const value kAny(true);
  if (has(object, of_rest))
    shape.additional = &object.at(of_rest);
  else if (!says_names)
    shape.additional = &kAny;
  shape.additional_key = of_rest;
  if (shape.additional != nullptr && shape.additional->is<bool>() && !shape.additional->get<bool>())
    shape.additional = nullptr;
  add_named(place, object, shape);
  add_extras(place, object, shape);
  return Expr::sequence({Expr::literal("{"), space(), members(place, shape), Expr::literal("}")});
}

void Converter::add_named(const Place& place, const Members& object, Shape& shape) {
  std::vector<std::string> required;
  if (has(object, "required")) {
    const value& list = object.at("required");
    if (!list.is<picojson::array>()) refuse(place, "'required' is no list");
    for (const value& name : list.get<picojson::array>()) {
      if (!name.is<std::string>()) refuse(place, "'required' has what is no text");
      required.push_back(name.get<std::string>());
    }
    std::ranges::sort(required);
  }
  const auto names_of = name_patterns(place, object);
  const auto may_be = [&](const std::string& name) {
    return std::ranges::all_of(names_of, [&](const Pattern& pattern) {
      return accepts(automaton_of({&pattern}, {}), name);
    });
  };
  // Patterns that match the name: their schemas also apply to its value.
  const auto check_patterns = [&](const std::string& name, const value* own) {
    if (!has(object, "patternProperties")) return;
    for (const auto& [pattern, schema] : members_at(place, object, "patternProperties")) {
      const bool is_same =
          accepts_all(schema) || (own != nullptr && json_text(schema) == json_text(*own));
      if (is_same) continue;
      const Pattern parsed = parse_pattern(pattern, Anchoring::kSearch);
      if (accepts(automaton_of({&parsed}, {}), name))
        refuse(place, fmt::format("the property '{}' has the pattern '{}' of 'patternProperties', "
                                  "too: that is not supported",
                                  name, pattern));
    }
  };
  const auto add = [&](const std::string& name, const Place& inner, const value* own) {
    const bool is_required = std::ranges::binary_search(required, name);
    check_patterns(name, own);
    shape.names.push_back(name);
    if (!may_be(name)) {
      if (is_required)
        refuse(place, fmt::format("'required' names '{}', which 'propertyNames' leaves out", name));
      return;
    }
    Expr pair = Expr::sequence({Expr::literal(json_text(std::string_view(name))), space(),
                                Expr::literal(":"), space(), convert(inner, kAllTypes)});
    shape.named.push_back({name, shared(std::move(pair)), is_required});
  };
  if (has(object, "properties")) {
    const auto& properties = members_at(place, object, "properties");
    for (const std::string& name : properties.ordered_keys()) {
      const value& schema = properties.at(name);
      add(name, place.inner(schema, "properties/" + name), &schema);
    }
  }
  for (const std::string& name : required) {
    if (std::ranges::find(shape.names, name) != shape.names.end()) continue;
    if (shape.additional == nullptr)
      refuse(place, fmt::format("'required' names '{}', which 'properties' does not have", name));
    add(name, place.inner(*shape.additional, shape.additional_key), shape.additional);
  }
}

/// A name as a JSON string: matches all of `all`, none of `none` and none of the known names.
Expr Converter::key_of(const Place& place, const Shape& shape,
                       const std::vector<const Pattern*>& all,
                       const std::vector<const Pattern*>& none) {
  if (all.empty() && none.empty() && shape.names.empty()) return any_string();
  std::vector<Pattern> ways;
  for (const std::string& name : shape.names) ways.push_back(Pattern::text(name));
  const Pattern known = Pattern::choice(std::move(ways));
  std::vector<const Pattern*> without = none;
  if (!shape.names.empty()) without.push_back(&known);
  try {
    return Expr::sequence({Expr::literal("\""),
                           rules_.expr_of(automaton_of(all, without), Spelling::kJson),
                           Expr::literal("\"")});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    refuse(place, fmt::format("names of properties that are not said: {}", error.what()));
  }
}

void Converter::add_extras(const Place& place, const Members& object, Shape& shape) {
  const auto names = name_patterns(place, object);
  std::vector<const Pattern*> all;
  for (const Pattern& pattern : names) all.push_back(&pattern);
  std::vector<std::pair<Pattern, Place>> patterns;
  if (has(object, "patternProperties")) {
    const auto& said = members_at(place, object, "patternProperties");
    for (const std::string& text : said.ordered_keys()) {
      const Place inner = place.inner(said.at(text), "patternProperties/" + text);
      try {
        patterns.emplace_back(parse_pattern(text, Anchoring::kSearch), inner);
      } catch (const Error& error) {
        refuse(inner, fmt::format("'patternProperties': {}", error.what()));
      }
    }
  }
  const auto add = [&](Expr key, const Place& inner) {
    Expr pair = Expr::sequence(
        {std::move(key), space(), Expr::literal(":"), space(), convert(inner, kAllTypes)});
    shape.extras.push_back(shared(std::move(pair)));
  };
  std::vector<const Pattern*> before;
  for (const auto& [pattern, inner] : patterns) {
    std::vector<const Pattern*> own = all;
    own.push_back(&pattern);
    for (const auto& [other, beside] : patterns) {
      if (&other == &pattern) break;
      if (json_text(*beside.schema) == json_text(*inner.schema)) continue;
      std::vector<const Pattern*> both = own;
      both.push_back(&other);
      if (!is_empty(automaton_of(both, {})))
        refuse(inner,
               "a name may have two patterns of 'patternProperties', whose values differ: "
               "that is not supported");
    }
    // The first pattern that matches a name generates it.
    add(key_of(place, shape, own, before), inner);
    before.push_back(&pattern);
  }
  if (shape.additional != nullptr)
    add(key_of(place, shape, all, before), place.inner(*shape.additional, shape.additional_key));
}

/// The text between the braces: each named property or its omission, then others. Free names may
/// repeat, so together they count as 1 towards `minProperties`, but each counts towards
/// `maxProperties`.
Expr Converter::members(const Place& place, const Shape& shape) {
  const auto count = std::ssize(shape.named);
  const std::int64_t least = shape.least, most = shape.most;
  if (most >= 0 && most < least) return none(place, "maxProperties");
  const bool has_extras = !shape.extras.empty();
  if (least > count + (has_extras ? 1 : 0))
    refuse(place, fmt::format("'minProperties' is {}: {}", least,
                              has_extras ? "names that are free may repeat, so that it is not "
                                           "supported beyond one of them"
                                         : "there are fewer"));
  // Number of properties written, capped where more makes no difference.
  const std::int64_t cap = std::min(count, std::max<std::int64_t>({1, least, most}));
  if ((count + 1) * (cap + 1) > kMostCounted)
    refuse(place,
           fmt::format("'minProperties' and 'maxProperties' of {} properties are not supported: "
                       "they would take more than {} rules",
                       count, kMostCounted));
  const auto separated = [](std::int64_t written, Expr pair) {
    std::vector<Expr> parts;
    if (written > 0) parts = {Expr::literal(","), space()};
    parts.push_back(std::move(pair));
    parts.push_back(space());
    return Expr::sequence(std::move(parts));
  };
  const Expr extra = has_extras ? shared(Expr::choice(shape.extras)) : Expr();
  const auto rest = [&](std::int64_t written) -> Expr {
    const bool is_enough = written >= least;
    if (!has_extras || (most >= 0 && written >= most)) return is_enough ? Expr() : Expr::none();
    if (written + 1 < least) return Expr::none();
    const Expr more = Expr::repeat(separated(1, extra), 0, most < 0 ? -1 : most - written - 1);
    Expr some = Expr::sequence({separated(written, extra), more});
    return is_enough ? Expr::optional(std::move(some)) : some;
  };
  // Backwards: the continuation after the first i properties, for each number of them written.
  std::vector<Expr> next;
  for (std::int64_t written = 0; written <= cap; ++written) next.push_back(shared(rest(written)));
  for (std::int64_t i = count - 1; i >= 0; --i) {
    const auto& one = shape.named[static_cast<std::size_t>(i)];
    std::vector<Expr> now;
    for (std::int64_t written = 0; written <= std::min(i, cap); ++written) {
      std::vector<Expr> ways;
      const auto after = static_cast<std::size_t>(std::min(written + 1, cap));
      if (most < 0 || written < most)
        ways.push_back(Expr::sequence({separated(written, one.pair), next[after]}));
      if (!one.is_required) ways.push_back(next[static_cast<std::size_t>(written)]);
      now.push_back(shared(Expr::choice(std::move(ways))));
    }
    next = std::move(now);
  }
  return next.front();
}

}  // namespace sinter::grammar
