// SPDX-License-Identifier: Apache-2.0
// JSON Schemas as grammars.
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

/// A schema and where it is, as a JSON pointer for messages.
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
/// A count; `otherwise` if `object` has no `key`. Throws as refuse does for another value.
std::int64_t count_of(const Place& place, const Members& object, const char* key,
                      std::int64_t otherwise);

/// Makes rules of a schema: each text of them is a value that the schema accepts, under any
/// validator; what cannot be held to is refused. Some values that it accepts have no text: keys
/// come in the schema's order, and those that are not named are left out unless
/// `additionalProperties` is said.
class Converter {
 public:
  explicit Converter(value root) : root_(std::move(root)) {}

  /// The text of the grammar. Throws Error(kUsage) with a keyword and its place.
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
  /// Refuses a schema that leads to itself for the same value: it says nothing, and validators do
  /// not end.
  void check_loop(const Place& place);
  /// A rule of the schema, which is made later: schemas lead to themselves.
  Expr later(const Place& place, Types allowed);
  /// What has no value, for the message if that leaves none for the whole.
  Expr none(const Place& place, const char* keyword);
  /// A rule, if it is long: for what stands in several places.
  Expr shared(Expr expr);
  Expr any_value();
  Expr any_string();
  /// The patterns that a string must have; none: it is free.
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
  std::map<const value*, bool> looked_at_;  // by check_loop(): whether it has come to an end
  std::deque<std::tuple<Place, Types, int>> open_;
  std::string why_none_;  // of the first
  int any_value_ = -1, any_string_ = -1, character_ = -1;
};

/// White space between tokens.
Expr space();

}  // namespace sinter::grammar
