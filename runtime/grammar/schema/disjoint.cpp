// SPDX-License-Identifier: Apache-2.0
// Decides which schemas have no value in common: for `oneOf`.
#include <algorithm>

#include "runtime/grammar/schema/converter.h"

namespace sinter::grammar {
namespace {

const Members* members_of(const Place& place) {
  return place.schema->is<Members>() ? &place.schema->get<Members>() : nullptr;
}

std::vector<std::string> required_of(const Members& object) {
  std::vector<std::string> names;
  if (has(object, "required") && object.at("required").is<picojson::array>())
    for (const value& name : object.at("required").get<picojson::array>())
      if (name.is<std::string>()) names.push_back(name.get<std::string>());
  return names;
}

const value* property_of(const Members& object, const std::string& name) {
  if (!has(object, "properties") || !object.at("properties").is<Members>()) return nullptr;
  const auto& properties = object.at("properties").get<Members>();
  return has(properties, name) ? &properties.at(name) : nullptr;
}

/// Whether the schema forbids a property `name`.
bool leaves_out(const Members& object, const std::string& name) {
  const bool is_closed = has(object, "additionalProperties") &&
                         object.at("additionalProperties").is<bool>() &&
                         !object.at("additionalProperties").get<bool>();
  return is_closed && property_of(object, name) == nullptr && !has(object, "patternProperties");
}

struct Range {
  double least = -1e308, most = 1e308;
  bool least_excluded = false, most_excluded = false;
};

Range range_of(const Members& object) {
  Range range;
  const auto take = [&](const char* key, bool is_least, bool is_excluded) {
    if (!has(object, key) || !object.at(key).is<double>()) return;
    const double bound = object.at(key).get<double>();
    if (is_least && bound >= range.least) range.least = bound, range.least_excluded = is_excluded;
    if (!is_least && bound <= range.most) range.most = bound, range.most_excluded = is_excluded;
  };
  take("minimum", true, false);
  take("exclusiveMinimum", true, true);
  take("maximum", false, false);
  take("exclusiveMaximum", false, true);
  return range;
}

bool are_apart(const Range& low, const Range& high) {
  return low.most < high.least ||
         (low.most == high.least && (low.most_excluded || high.least_excluded));
}

}  // namespace

/// Follows references while they are unambiguous.
const Place Converter::resolved(Place place) const {
  for (int i = 0; i < 16; ++i) {
    const Members* object = members_of(place);
    if (object == nullptr || !has(*object, "$ref") || !object->at("$ref").is<std::string>()) break;
    place = target_of(place, object->at("$ref").get<std::string>());
  }
  return place;
}

std::optional<std::vector<std::string>> Converter::literals_of(const Place& place) const {
  const Place at = resolved(place);
  const Members* object = members_of(at);
  if (object == nullptr) return std::nullopt;
  if (has(*object, "const")) return std::vector{json_text(object->at("const"))};
  if (!has(*object, "enum") || !object->at("enum").is<picojson::array>()) return std::nullopt;
  std::vector<std::string> texts;
  for (const value& one : object->at("enum").get<picojson::array>())
    texts.push_back(json_text(one));
  return texts;
}

/// A superset of the values' types.
Types Converter::types_at(const Place& place, int steps) const {
  const Place at = resolved(place);
  const Members* object = members_of(at);
  if (object == nullptr || steps == 0) return kAllTypes;
  Types types = types_of(at, *object);
  Types literal = 0;
  const auto add = [&](const value& one) { literal |= type_of(one); };
  if (has(*object, "const")) add(object->at("const"));
  if (has(*object, "enum") && object->at("enum").is<picojson::array>())
    for (const value& one : object->at("enum").get<picojson::array>()) add(one);
  if (literal != 0) types &= literal;
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    if (!has(*object, key) || !object->at(key).is<picojson::array>()) continue;
    Types any = 0;
    for (const value& one : object->at(key).get<picojson::array>())
      any |= types_at(at.inner(one, key), steps - 1);
    types &= any;
  }
  return types;
}

bool Converter::are_disjoint(const Place& given, const Place& beside, int steps) const {
  if (steps == 0) return false;
  const Place one = resolved(given), other = resolved(beside);
  const Types common = types_at(one, steps) & types_at(other, steps);
  if (common == 0) return true;
  if (const auto texts = literals_of(one), others = literals_of(other); texts && others)
    return std::ranges::none_of(*texts, [&](const std::string& text) {
      return std::ranges::find(*others, text) != others->end();
    });
  const Members *first = members_of(one), *second = members_of(other);
  if (first == nullptr || second == nullptr) return false;
  // A choice is disjoint if each alternative is.
  const auto is_apart = [&](const Place& choice, const Place& against) -> std::optional<bool> {
    const Members& object = *members_of(choice);
    for (const char* key : {"anyOf", "oneOf"})
      if (has(object, key) && object.at(key).is<picojson::array>())
        return std::ranges::all_of(object.at(key).get<picojson::array>(), [&](const value& inner) {
          return are_disjoint(choice.inner(inner, key), against, steps - 1);
        });
    return std::nullopt;
  };
  if (const auto apart = is_apart(one, other)) return *apart;
  if (const auto apart = is_apart(other, one)) return *apart;
  if ((common & ~(kInteger | kNumber)) == 0)
    return are_apart(range_of(*first), range_of(*second)) ||
           are_apart(range_of(*second), range_of(*first));
  if (common != kObject) return false;
  for (const auto& [object, against] : {std::pair(first, second), std::pair(second, first)})
    for (const std::string& name : required_of(*object)) {
      if (leaves_out(*against, name)) return true;
      const value *own = property_of(*object, name), *theirs = property_of(*against, name);
      const auto names = required_of(*against);
      if (own != nullptr && theirs != nullptr && std::ranges::find(names, name) != names.end() &&
          are_disjoint(one.inner(*own, name), other.inner(*theirs, name), steps - 1))
        return true;
    }
  return false;
}

}  // namespace sinter::grammar
