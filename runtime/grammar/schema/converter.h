// SPDX-License-Identifier: Apache-2.0
// Converts JSON Schemas to grammars.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/grammar/schema/rules.h"
#include "runtime/grammar/schema/values.h"

namespace sinter::grammar {

/// A schema and its JSON pointer, for messages.
struct Place {
  const value* schema;
  std::string at;
  int depth = 0;

  Place inner(const value& one, const std::string& path) const {
    return {&one, at + "/" + path, depth + 1};
  }
};

std::string where(const Place& place);
[[noreturn]] void refuse(const Place& place, const std::string& what);
/// A count; `otherwise` if `object` lacks `key`. Throws as refuse does for an invalid value.
std::int64_t count_of(const Place& place, const Members& object, const char* key,
                      std::int64_t otherwise);

/// Converts a schema to grammar rules. Every generated text is a value that any validator accepts
/// for the schema; unsupported keywords are refused. The grammar may omit valid values: keys come
/// in the schema's order, and unnamed keys need an explicit `additionalProperties`.
class Converter {
 public:
  explicit Converter(value root) : root_(std::move(root)) {}

  /// Returns the grammar's text. Throws Error(kUsage) naming a keyword and its place.
  std::string run();

 private:
  // converter.cpp
  Expr convert(const Place& place, Types allowed);
  Expr convert_typed(const Place& place, const Members& object, Types types);
  Expr literals(const Place& place, const Members& object, Types allowed);
  Expr combined(const Place& place, const Members& object, const char* keyword, Types allowed);
  Expr string(const Place& place, const Members& object);
  Expr number(const Place& place, const Members& object, bool is_integer);
  Expr array(const Place& place, const Members& object);
  Place target_of(const Place& place, const std::string& uri) const;
  /// Refuses a schema that refers to itself for the same value: it constrains nothing, and
  /// validators loop forever.
  void check_loop(const Place& place);
  /// A rule whose body is converted later, because schemas may be recursive.
  Expr later(const Place& place, Types allowed);
  /// An empty alternative; records the reason for the error if the whole schema has no value.
  Expr none(const Place& place, const char* keyword);
  /// Makes a long expression a rule, for use in several places.
  Expr shared(Expr expr);
  Expr any_value();
  Expr any_string();
  /// Patterns that a string must match; empty: any string.
  std::vector<Pattern> patterns_of(const Place& place, const Members& object) const;
  Types types_of(const Place& place, const Members& object) const;
  Types implied_types(const Place& place, const Members& object) const;
  void check_keywords(const Place& place, const Members& object) const;
  void check_siblings(const Place& place, const Members& object, const char* alone) const;

  // objects.cpp
  struct Shape;
  Expr object(const Place& place, const Members& object);
  void add_named(const Place& place, const Members& object, Shape& shape);
  void add_extras(const Place& place, const Members& object, Shape& shape);
  Expr key_of(const Place& place, const Shape& shape, const std::vector<const Pattern*>& all,
              const std::vector<const Pattern*>& none);
  Expr members(const Place& place, const Shape& shape);
  std::vector<Pattern> name_patterns(const Place& place, const Members& object) const;

  // disjoint.cpp
  bool are_disjoint(const Place& one, const Place& other, int steps) const;
  std::optional<std::vector<std::string>> literals_of(const Place& place) const;
  Types types_at(const Place& place, int steps) const;
  const Place resolved(Place place) const;

  const value root_;
  Rules rules_;
  std::map<std::pair<const value*, Types>, int> made_;
  std::map<const value*, bool> looked_at_;  // check_loop(): true when finished
  std::deque<std::tuple<Place, Types, int>> open_;
  std::string why_none_;  // the first reason
  int any_value_ = -1, any_string_ = -1, character_ = -1;
};

/// Optional white space between tokens.
Expr space();

}  // namespace sinter::grammar
