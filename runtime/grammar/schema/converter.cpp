// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema/converter.h"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/format_error.h"
#include "runtime/grammar/schema/formats.h"
#include "runtime/grammar/schema/numbers.h"

namespace sinter::grammar {
std::int64_t count_of(const Place& place, const Members& object, const char* key,
                      std::int64_t otherwise) {
  if (!has(object, key)) return otherwise;
  const value& said = object.at(key);
  const bool is_count = said.is<double>() && (type_of(said) & kInteger) != 0 &&
                        said.get<double>() >= 0 && said.get<double>() <= 1e15;
  if (!is_count) refuse(place, fmt::format("'{}' is no count", key));
  return static_cast<std::int64_t>(said.get<double>());
}

namespace {

constexpr int kMostDepth = 64;
constexpr int kMostDivisor = 1000;
constexpr std::int64_t kMostLength = 100'000;

/// Keywords that no grammar can express.
constexpr std::array kUnsupported = {
    "not",         "if",          "then",        "else",        "dependentRequired",
    "contains",    "minContains", "maxContains", "uniqueItems", "dependentSchemas",
    "$dynamicRef", "$anchor",     "$id",         "id",          "dependencies"};
/// Keywords that allow no sibling keyword.
constexpr std::array kAlone = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
constexpr std::array kOfObjects = {
    "properties",        "required",      "additionalProperties", "unevaluatedProperties",
    "patternProperties", "propertyNames", "minProperties",        "maxProperties"};
constexpr std::array kOfArrays = {"items",    "prefixItems", "unevaluatedItems",
                                  "minItems", "maxItems",    "additionalItems"};
constexpr std::array kOfValues = {"minLength",        "maxLength",  "pattern",
                                  "format",           "minimum",    "maximum",
                                  "exclusiveMinimum", "multipleOf", "exclusiveMaximum"};

template <std::size_t N>
const char* first_of(const Members& object, const std::array<const char*, N>& keys) {
  const auto found = std::ranges::find_if(keys, [&](const char* key) { return has(object, key); });
  return found == keys.end() ? nullptr : *found;
}

std::string text_at(const Place& place, const Members& object, const char* key) {
  if (!object.at(key).is<std::string>()) refuse(place, fmt::format("'{}' is no text", key));
  return object.at(key).get<std::string>();
}

/// Prefixes errors of `call` with the keyword and its place.
template <typename Call>
auto with_keyword(const Place& place, std::string_view keyword, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    refuse(place, fmt::format("'{}': {}", keyword, error.what()));
  }
}

/// Decodes %XX of a URI fragment, then ~1 and ~0 of a JSON pointer (RFC 6901).
std::string decoded(std::string_view part) {
  std::string bytes;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      const char c = at < part.size() ? part[at] : ' ';
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    if (part[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      bytes += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      bytes += part[i];
    }
  }
  std::string result;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape = bytes[i] == '~' && i + 1 < bytes.size();
    if (is_escape && (bytes[i + 1] == '0' || bytes[i + 1] == '1'))
      result += bytes[++i] == '0' ? '~' : '/';
    else
      result += bytes[i];
  }
  return result;
}

Expr quoted(Expr inner) {
  return Expr::sequence({Expr::literal("\""), std::move(inner), Expr::literal("\"")});
}

}  // namespace

std::string where(const Place& place) {
  return place.at.empty() ? "at its root" : "at '" + place.at + "'";
}

void refuse(const Place& place, const std::string& what) {
  throw usage_error("{}: {}", where(place), what);
}

Expr space() { return Expr::repeat(Expr::raw("[ \\n\\t]"), 0, -1); }

std::string Converter::run() {
  later({&root_, ""}, kAllTypes);  // becomes the root rule
  while (!open_.empty()) {
    const auto [place, allowed, rule] = std::move(open_.front());
    open_.pop_front();
    rules_.define(rule, convert(place, allowed));
  }
  if (auto text = rules_.ebnf()) return std::move(*text);
  throw usage_error("it cannot accept any value: {}",
                    why_none_.empty() ? "at its root: 'required', 'minItems' or '$ref' ask for "
                                        "values in values without end"
                                      : why_none_);
}

Expr Converter::none(const Place& place, const char* keyword) {
  if (why_none_.empty()) why_none_ = fmt::format("{}: '{}' leaves none", where(place), keyword);
  return Expr::none();
}

Expr Converter::later(const Place& place, Types allowed) {
  const auto [at, is_new] = made_.emplace(std::pair(place.schema, allowed), -1);
  if (is_new) {
    at->second = rules_.add();
    open_.emplace_back(Place{place.schema, place.at, 0}, allowed, at->second);
  }
  return Expr::of_rule(at->second);
}

Expr Converter::convert(const Place& place, Types allowed) {
  if (place.depth > kMostDepth)
    refuse(place, fmt::format("it is nested deeper than {}", kMostDepth));
  const value& schema = *place.schema;
  if (schema.is<bool>()) {
    if (!schema.get<bool>()) return none(place, "false");
    static const Members kOpen;
    return allowed == kAllTypes ? any_value() : convert_typed(place, kOpen, allowed);
  }
  if (!schema.is<Members>()) refuse(place, "this is neither an object nor a boolean");
  const auto& object = schema.get<Members>();
  check_keywords(place, object);
  const Types said = types_of(place, object);
  const char* alone = first_of(object, kAlone);
  if (alone != nullptr) {
    check_loop(place);
    check_siblings(place, object, alone);
    const std::string_view keyword = alone;
    if (keyword == "$ref")
      return later(target_of(place, text_at(place, object, "$ref")), allowed & said);
    if (keyword == "const" || keyword == "enum") return literals(place, object, allowed & said);
    return combined(place, object, alone, allowed & said);
  }
  const Types types = has(object, "type") ? said : implied_types(place, object);
  const bool is_any = types == kAllTypes && allowed == kAllTypes;
  return is_any ? any_value() : convert_typed(place, object, types & allowed);
}

void Converter::check_keywords(const Place& place, const Members& object) const {
  for (const char* key : kUnsupported)
    if (has(object, key) && !(object.at(key).is<bool>() && !object.at(key).get<bool>()))
      refuse(place, fmt::format("'{}' is not supported", key));
}

Types Converter::types_of(const Place& place, const Members& object) const {
  if (!has(object, "type")) return kAllTypes;
  const value& type = object.at("type");
  Types types = 0;
  for (const value& one :
       type.is<picojson::array>() ? type.get<picojson::array>() : picojson::array{type}) {
    if (!one.is<std::string>()) refuse(place, "'type' is neither a text nor a list of texts");
    const Types named = type_named(one.get<std::string>());
    if (named == 0)
      refuse(place, fmt::format("'type' is '{}', which is none", one.get<std::string>()));
    types |= named;
  }
  return types;
}

/// Without `type`, keywords of objects and arrays imply the type, although JSON Schema applies them
/// only to values of that type.
Types Converter::implied_types(const Place& place, const Members& object) const {
  const char* of_objects = first_of(object, kOfObjects);
  const char* of_arrays = first_of(object, kOfArrays);
  const char* of_values = first_of(object, kOfValues);
  if (of_values != nullptr || (of_objects != nullptr && of_arrays != nullptr))
    refuse(place,
           fmt::format("'{}' needs a 'type'", of_values != nullptr ? of_values : of_objects));
  return of_objects != nullptr ? kObject : of_arrays != nullptr ? kArray : kAllTypes;
}

void Converter::check_siblings(const Place& place, const Members& object, const char* alone) const {
  const auto beside = [&](const char* key) {
    if (has(object, key) && key != alone)
      refuse(place, fmt::format("'{}' beside '{}' is not supported", key, alone));
  };
  for (const char* key : kAlone) beside(key);
  for (const char* key : kOfObjects) beside(key);
  for (const char* key : kOfArrays) beside(key);
  for (const char* key : kOfValues) beside(key);
}

Expr Converter::literals(const Place& place, const Members& object, Types allowed) {
  const bool is_const = has(object, "const");
  const value& said = object.at(is_const ? "const" : "enum");
  if (!is_const && !said.is<picojson::array>()) refuse(place, "'enum' is no list");
  std::vector<Expr> ways;
  for (const value& one : is_const ? picojson::array{said} : said.get<picojson::array>()) {
    // A value that contradicts the schema's own 'type' is a mistake; one that contradicts another
    // schema's is only dropped.
    if ((type_of(one) & types_of(place, object)) == 0)
      refuse(place, fmt::format("{} of '{}' is not of the 'type'", json_text(one),
                                is_const ? "const" : "enum"));
    if ((type_of(one) & allowed) != 0) ways.push_back(Expr::literal(json_text(one)));
  }
  if (ways.empty()) return none(place, is_const ? "const" : "enum");
  return Expr::choice(std::move(ways));
}

Expr Converter::combined(const Place& place, const Members& object, const char* keyword,
                         Types allowed) {
  const value& said = object.at(keyword);
  if (!said.is<picojson::array>() || said.get<picojson::array>().empty())
    refuse(place, fmt::format("'{}' is no list of schemas", keyword));
  const auto& list = said.get<picojson::array>();
  const std::string_view name = keyword;
  if (name == "allOf" && list.size() != 1)
    refuse(place, "'allOf' of more than one is not supported");
  std::vector<Place> places;
  for (std::size_t i = 0; i < list.size(); ++i)
    places.push_back(place.inner(list[i], fmt::format("{}/{}", keyword, i)));
  if (name == "oneOf")
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (!are_disjoint(places[j], places[i], 8))
          refuse(place, fmt::format("a value may satisfy more than one of 'oneOf' ({} and {}): say "
                                    "'anyOf', or what tells them apart",
                                    j, i));
  std::vector<Expr> ways;
  for (const Place& inner : places) ways.push_back(convert(inner, allowed));
  return Expr::choice(std::move(ways));
}

Expr Converter::convert_typed(const Place& place, const Members& object, Types types) {
  std::vector<Expr> ways;
  if ((types & kNull) != 0) ways.push_back(Expr::literal("null"));
  if ((types & kBoolean) != 0)
    ways.push_back(Expr::choice({Expr::literal("true"), Expr::literal("false")}));
  if ((types & kInteger) != 0 || (types & kNumber) != 0)
    ways.push_back(number(place, object, (types & kNumber) == 0));
  if ((types & kString) != 0) ways.push_back(string(place, object));
  if ((types & kArray) != 0) ways.push_back(array(place, object));
  if ((types & kObject) != 0) ways.push_back(this->object(place, object));
  return Expr::choice(std::move(ways));
}

Place Converter::target_of(const Place& place, const std::string& uri) const {
  if (uri != "#" && !uri.starts_with("#/"))
    refuse(place, fmt::format("'$ref' leads to '{}', not into the schema itself (#/..)", uri));
  const value* target = &root_;
  for (std::size_t from = 2; from <= uri.size() && uri.size() > 1;) {
    const std::size_t end = std::min(uri.find('/', from), uri.size());
    const std::string part = decoded(std::string_view(uri).substr(from, end - from));
    const value* next = nullptr;
    if (target->is<Members>() && has(target->get<Members>(), part)) {
      next = &target->get<Members>().at(part);
    } else if (target->is<picojson::array>()) {
      const auto& list = target->get<picojson::array>();
      const bool is_index = !part.empty() && part.size() < 9 &&
                            part.find_first_not_of("0123456789") == std::string::npos;
      if (is_index && static_cast<std::size_t>(std::stoi(part)) < list.size())
        next = &list[static_cast<std::size_t>(std::stoi(part))];
    }
    if (next == nullptr)
      refuse(place, fmt::format("'$ref' leads to '{}', which is not there", uri));
    target = next;
    from = end + 1;
  }
  return {target, uri.substr(1)};
}

void Converter::check_loop(const Place& place) {
  if (!place.schema->is<Members>()) return;
  const auto [at, is_new] = looked_at_.emplace(place.schema, false);
  if (!is_new) {
    if (!at->second) refuse(place, "'$ref' leads to this schema itself, for the same value");
    return;
  }
  const auto& object = place.schema->get<Members>();
  if (has(object, "$ref")) check_loop(target_of(place, text_at(place, object, "$ref")));
  for (const char* key : {"anyOf", "oneOf", "allOf"})
    if (has(object, key) && object.at(key).is<picojson::array>()) {
      const auto& list = object.at(key).get<picojson::array>();
      for (std::size_t i = 0; i < list.size(); ++i)
        check_loop(place.inner(list[i], fmt::format("{}/{}", key, i)));
    }
  looked_at_[place.schema] = true;
}

Expr Converter::shared(Expr expr) {
  const bool is_short = expr.kind == Expr::Kind::kText || expr.kind == Expr::Kind::kRule;
  return is_short ? expr : Expr::of_rule(rules_.add(std::move(expr)));
}

Expr Converter::any_string() {
  if (any_string_ < 0) {
    // The character itself or one of its escapes; a lone surrogate is no character.
    const Expr hex = Expr::raw("[0-9a-fA-F]");
    const auto unit = [&](const char* first, const char* second) {
      return Expr::sequence({Expr::raw("\"u\""), Expr::raw(first), Expr::raw(second), hex, hex});
    };
    const Expr escape =
        Expr::sequence({Expr::literal("\\"),
                        Expr::choice({Expr::raw("[\"\\\\/bfnrt]"),
                                      unit("[0-9a-cA-CefEF]", "[0-9a-fA-F]"), unit("[dD]", "[0-7]"),
                                      Expr::sequence({unit("[dD]", "[89abAB]"), Expr::literal("\\"),
                                                      unit("[dD]", "[c-fC-F]")})})});
    const Characters raw = Characters({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).complement();
    character_ = rules_.add(Expr::choice({expr_of(Pattern::of(raw), Spelling::kPlain), escape}));
    any_string_ = rules_.add(quoted(Expr::repeat(Expr::of_rule(character_), 0, -1)));
  }
  return Expr::of_rule(any_string_);
}

Expr Converter::any_value() {
  if (any_value_ >= 0) return Expr::of_rule(any_value_);
  any_value_ = rules_.add();
  const Expr one = Expr::of_rule(any_value_);
  const auto list = [](const char* begin, const Expr& item, const char* end) {
    const Expr more =
        Expr::repeat(Expr::sequence({Expr::literal(","), space(), item, space()}), 0, -1);
    return Expr::sequence({Expr::literal(begin), space(),
                           Expr::optional(Expr::sequence({item, space(), more})),
                           Expr::literal(end)});
  };
  const Expr member = Expr::sequence({any_string(), space(), Expr::literal(":"), space(), one});
  rules_.define(any_value_,
                Expr::choice({Expr::literal("null"), Expr::literal("true"), Expr::literal("false"),
                              number_expr({}, rules_), any_string(), list("[", one, "]"),
                              list("{", member, "}")}));
  return one;
}

std::vector<Pattern> Converter::patterns_of(const Place& place, const Members& object) const {
  std::vector<Pattern> all;
  if (has(object, "pattern"))
    all.push_back(with_keyword(place, "pattern", [&] {
      return parse_pattern(text_at(place, object, "pattern"), Anchoring::kSearch);
    }));
  if (has(object, "format")) {
    const std::string format = text_at(place, object, "format");
    auto pattern = format_pattern(format);
    if (!pattern)
      refuse(place, fmt::format("'format' is '{}', which is not supported: {} are", format,
                                format_names()));
    all.push_back(std::move(*pattern));
  }
  return all;
}

Expr Converter::string(const Place& place, const Members& object) {
  const std::int64_t least = count_of(place, object, "minLength", 0);
  const std::int64_t most = count_of(place, object, "maxLength", Pattern::kUnbounded);
  for (const auto& [key, said] : {std::pair("minLength", least), std::pair("maxLength", most)})
    if (said > kMostLength)
      refuse(place, fmt::format("'{}' is {}: {} at most", key, said, kMostLength));
  if (most >= 0 && most < least) return none(place, "maxLength");
  auto patterns = patterns_of(place, object);
  if (patterns.empty()) {
    if (least == 0 && most < 0) return any_string();
    any_string();
    return quoted(Expr::repeat(Expr::of_rule(character_), least, most));
  }
  const bool is_within = [&] {
    const Lengths lengths = lengths_of(patterns.front());
    return lengths.least >= least && (most < 0 || (lengths.most >= 0 && lengths.most <= most));
  }();
  if (patterns.size() == 1 && is_within) return quoted(expr_of(patterns.front(), Spelling::kJson));
  if (least > 0 || most >= 0)
    patterns.push_back(Pattern::repeat(Pattern::of(Characters::all()), static_cast<int>(least),
                                       static_cast<int>(most)));
  std::vector<const Pattern*> all;
  for (const Pattern& pattern : patterns) all.push_back(&pattern);
  const std::string keywords = has(object, "pattern") ? "pattern" : "format";
  return with_keyword(place, keywords, [&] {
    const Automaton automaton = automaton_of(all, {});
    if (is_empty(automaton)) return none(place, has(object, "pattern") ? "pattern" : "format");
    return quoted(rules_.expr_of(automaton, Spelling::kJson));
  });
}

Expr Converter::number(const Place& place, const Members& object, bool is_integer) {
  NumberRange range;
  range.is_integer = is_integer;
  const auto take = [&](const char* key, bool is_least, bool is_exclusive) {
    if (!has(object, key)) return;
    const value& said = object.at(key);
    if (!said.is<double>()) refuse(place, fmt::format("'{}' is no number", key));
    const double number = said.get<double>();
    const auto decimal = said.is<std::int64_t>() && std::abs(number) < 1e18
                             ? std::optional(decimal_of(said.get<std::int64_t>()))
                             : with_keyword(place, key, [&] { return decimal_of(number); });
    if (!decimal) {
      // A bound beyond 1e18 is no restriction, or excludes every number.
      if (is_least == (number > 0))
        refuse(place, fmt::format("'{}' is {}: numbers are written up to 1e18", key, number));
      return;
    }
    auto& bound = is_least ? range.least : range.most;
    const double known = bound ? std::stod((bound->value.is_negative ? "-" : "") +
                                           bound->value.whole + "." + bound->value.fraction + "0")
                               : 0;
    const bool is_tighter =
        !bound || (is_least ? number > known : number < known) || (number == known && is_exclusive);
    if (is_tighter) bound = Bound{*decimal, is_exclusive};
  };
  take("minimum", true, false);
  take("exclusiveMinimum", true, true);
  take("maximum", false, false);
  take("exclusiveMaximum", false, true);
  if (has(object, "format")) {
    // OpenAPI's formats of numbers: storage types.
    const std::string format = text_at(place, object, "format");
    const bool is_string_too = format_pattern(format).has_value();
    if (format == "int32") {
      const Bound least{decimal_of(std::int64_t{INT32_MIN}), false};
      const Bound most{decimal_of(std::int64_t{INT32_MAX}), false};
      if (!range.least) range.least = least;
      if (!range.most) range.most = most;
    } else if (format != "int64" && format != "float" && format != "double" && !is_string_too) {
      refuse(place, fmt::format("'format' is '{}', which is not supported for numbers", format));
    }
  }
  if (has(object, "multipleOf")) {
    const value& said = object.at("multipleOf");
    const double divisor = said.is<double>() ? said.get<double>() : 0;
    if (!(divisor >= 1) || (type_of(said) & kInteger) == 0 || divisor > kMostDivisor)
      refuse(place, fmt::format("'multipleOf' is {}: integers from 1 to {} are supported",
                                json_text(said), kMostDivisor));
    range.divisor = static_cast<int>(divisor);
    range.is_integer = true;
  }
  Expr made = with_keyword(place, "minimum", [&] { return number_expr(range, rules_); });
  return made.is_none() ? none(place, has(object, "maximum") ? "maximum" : "minimum") : made;
}

Expr Converter::array(const Place& place, const Members& object) {
  std::int64_t least = count_of(place, object, "minItems", 0);
  std::int64_t most = count_of(place, object, "maxItems", -1);
  for (const auto& [key, said] : {std::pair("minItems", least), std::pair("maxItems", most)})
    if (said > kMostLength)
      refuse(place, fmt::format("'{}' is {}: {} at most", key, said, kMostLength));
  if (most >= 0 && most < least) return none(place, "maxItems");
  // The prefix items, then the rest.
  std::vector<Expr> front;
  std::optional<Expr> rest;
  const auto add_front = [&](const char* key) {
    const value& list = object.at(key);
    if (!list.is<picojson::array>()) refuse(place, fmt::format("'{}' is no list", key));
    const auto& schemas = list.get<picojson::array>();
    for (std::size_t i = 0; i < schemas.size(); ++i)
      front.push_back(convert(place.inner(schemas[i], fmt::format("{}/{}", key, i)), kAllTypes));
  };
  const bool is_old = has(object, "items") && object.at("items").is<picojson::array>();
  if (is_old && has(object, "prefixItems")) refuse(place, "'items' is a list beside 'prefixItems'");
  if (has(object, "additionalItems") && !is_old)
    refuse(place, "'additionalItems' without a list of 'items' is not supported");
  if (has(object, "prefixItems")) add_front("prefixItems");
  if (is_old) add_front("items");
  const char* of_rest = is_old                            ? "additionalItems"
                        : has(object, "items")            ? "items"
                        : has(object, "unevaluatedItems") ? "unevaluatedItems"
                                                          : "";
  if (has(object, of_rest))
    rest = shared(convert(place.inner(object.at(of_rest), of_rest), kAllTypes));
  else if (front.empty())
    rest = any_value();
  const auto size = std::ssize(front);
  if (!rest && least > size)
    refuse(place, fmt::format("'minItems' is {}, and {} items are described", least, size));
  const auto behind = [](Expr item) {
    return Expr::sequence({Expr::literal(","), space(), std::move(item), space()});
  };
  // Rest of an array after i items, built from the last prefix item back.
  Expr tail;
  if (rest && size > 0)
    tail = Expr::repeat(behind(*rest), std::max<std::int64_t>(least - size, 0),
                        most < 0 ? -1 : std::max<std::int64_t>(most - size, 0));
  if (rest && size == 0) {
    const Expr more =
        Expr::repeat(behind(*rest), std::max<std::int64_t>(least - 1, 0), most < 0 ? -1 : most - 1);
    tail = most == 0 ? Expr() : Expr::sequence({*rest, space(), more});
    if (least == 0 && most != 0) tail = Expr::optional(std::move(tail));
  }
  for (std::int64_t i = size - 1; i >= 0; --i) {
    if (most >= 0 && i >= most) {
      tail = {};
      continue;
    }
    Expr item =
        i == 0 ? Expr::sequence({front[0], space()}) : behind(front[static_cast<std::size_t>(i)]);
    Expr one = Expr::sequence({std::move(item), std::move(tail)});
    if (i >= least) one = Expr::optional(std::move(one));
    // A separate rule keeps the nesting of expressions constant for long arrays.
    tail = Expr::of_rule(rules_.add(std::move(one)));
  }
  return Expr::sequence({Expr::literal("["), space(), std::move(tail), Expr::literal("]")});
}

}  // namespace sinter::grammar
