#include "runtime/grammar/check_schema.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <picojson.h>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

using picojson::value;

/// Deeper ones are nobody's, and all that reads them goes down by calls of itself.
constexpr int kMostDepth = 64;

/// What no grammar is made of.
constexpr std::array kUnsupported = {
    "not",         "if",          "then",        "else",        "dependentRequired",
    "contains",    "minContains", "maxContains", "uniqueItems", "dependentSchemas",
    "$dynamicRef", "$anchor",     "$id",         "id",          "additionalItems",
    "dependencies"};
/// Of each of these all that is beside it would be lost.
constexpr std::array kAlone = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
constexpr std::array kOfObjects = {
    "properties",        "required",      "additionalProperties", "unevaluatedProperties",
    "patternProperties", "propertyNames", "minProperties",        "maxProperties"};
constexpr std::array kOfArrays = {"items", "prefixItems", "unevaluatedItems", "minItems",
                                  "maxItems"};
constexpr std::array kOfValues = {"minLength",        "maxLength",  "pattern",
                                  "format",           "minimum",    "maximum",
                                  "exclusiveMinimum", "multipleOf", "exclusiveMaximum"};

bool has(const picojson::object& object, const std::string& key) { return object.count(key) > 0; }

template <std::size_t N>
const char* first_of(const picojson::object& object, const std::array<const char*, N>& keys) {
  const auto at = std::ranges::find_if(keys, [&](const char* key) { return has(object, key); });
  return at == keys.end() ? nullptr : *at;
}

[[noreturn]] void fail(const std::string& at, const std::string& what) {
  throw usage_error("JSON schema, {}: {}", at.empty() ? "at its root" : "at '" + at + "'", what);
}

bool is_of(const value& one, const std::string& type) {
  if (type == "null") return one.is<picojson::null>();
  if (type == "boolean") return one.is<bool>();
  if (type == "integer") return one.is<std::int64_t>();
  if (type == "number") return one.is<double>();  // of integers, too
  if (type == "string") return one.is<std::string>();
  if (type == "array") return one.is<picojson::array>();
  return type == "object" && one.is<picojson::object>();
}

class SchemaCheck {
 public:
  explicit SchemaCheck(value& root) : root_(root) { check(root, "", 0); }

 private:
  void check(value& schema, const std::string& at, int depth) {
    if (depth > kMostDepth) fail(at, fmt::format("it is nested deeper than {}", kMostDepth));
    if (schema.is<bool>() || !seen_.insert(&schema).second) return;
    if (!schema.is<picojson::object>()) fail(at, "this is neither an object nor a boolean");
    auto& object = schema.get<picojson::object>();
    for (const char* key : kUnsupported)
      if (has(object, key) && !(object.at(key).is<bool>() && !object.at(key).get<bool>()))
        fail(at, fmt::format("'{}' is not supported", key));
    auto types = types_of(object, at);
    if (types.empty() && first_of(object, kAlone) == nullptr) types = implied_types(object, at);
    check_alone(object, types, at);
    for (const char* key : {"pattern", "format", "$ref"})
      if (has(object, key) && !object.at(key).is<std::string>())
        fail(at, fmt::format("'{}' is no text", key));
    check_required(object, at);
    visit(object, at, depth);
    open(object, types);
  }

  static std::vector<std::string> types_of(const picojson::object& object, const std::string& at) {
    std::vector<std::string> types;
    if (!has(object, "type")) return types;
    const value& type = object.at("type");
    for (const value& one :
         type.is<picojson::array>() ? type.get<picojson::array>() : picojson::array{type}) {
      if (!one.is<std::string>()) fail(at, "'type' is neither a text nor a list of texts");
      types.push_back(one.get<std::string>());
    }
    return types;
  }

  /// Keywords of objects and arrays that say nothing of other values are taken for their type.
  static std::vector<std::string> implied_types(picojson::object& object, const std::string& at) {
    const char* of_objects = first_of(object, kOfObjects);
    const char* of_arrays = first_of(object, kOfArrays);
    const char* of_values = first_of(object, kOfValues);
    if (of_values != nullptr || (of_objects != nullptr && of_arrays != nullptr))
      fail(at, fmt::format("'{}' needs a 'type'", of_values != nullptr ? of_values : of_objects));
    if (of_objects == nullptr && of_arrays == nullptr) return {};
    const std::string type = of_objects != nullptr ? "object" : "array";
    object["type"] = value(type);
    return {type};
  }

  static void check_alone(const picojson::object& object, const std::vector<std::string>& types,
                          const std::string& at) {
    const char* alone = first_of(object, kAlone);
    const auto beside = [&](const char* key) {
      if (has(object, key) && key != alone)
        fail(at, fmt::format("'{}' beside '{}' is not supported", key, alone));
    };
    if (alone == nullptr) return;
    for (const char* key : kAlone) beside(key);
    for (const char* key : kOfObjects) beside(key);
    for (const char* key : kOfArrays) beside(key);
    for (const char* key : kOfValues) beside(key);
    if (types.empty()) return;
    const bool is_const = has(object, "const");
    if (!is_const && !has(object, "enum")) beside("type");
    const value& said = object.at(is_const ? "const" : "enum");
    for (const value& one : !is_const && said.is<picojson::array>() ? said.get<picojson::array>()
                                                                    : picojson::array{said})
      if (std::ranges::none_of(types, [&](const auto& type) { return is_of(one, type); }))
        fail(at, fmt::format("{} of '{}' is not of the 'type'", one.serialize(),
                             is_const ? "const" : "enum"));
  }

  static void check_required(const picojson::object& object, const std::string& at) {
    if (!has(object, "required")) return;
    const value& required = object.at("required");
    if (!required.is<picojson::array>()) fail(at, "'required' is no list");
    for (const value& name : required.get<picojson::array>()) {
      if (!name.is<std::string>()) fail(at, "'required' has what is no text");
      const bool is_named =
          has(object, "properties") && object.at("properties").is<picojson::object>() &&
          has(object.at("properties").get<picojson::object>(), name.get<std::string>());
      if (!is_named)
        fail(at, fmt::format("'required' names '{}', which 'properties' does not have",
                             name.get<std::string>()));
    }
  }

  void visit(picojson::object& object, const std::string& at, int depth) {
    for (const char* key : {"properties", "patternProperties"}) {
      if (!has(object, key) || !object.at(key).is<picojson::object>()) continue;
      auto& named = object.at(key).get<picojson::object>();
      // Copied: a reference may lead to these names themselves, as if they were a schema.
      const std::vector<std::string> names = named.ordered_keys();
      for (const std::string& name : names)
        check(named.at(name), fmt::format("{}/{}/{}", at, key, name), depth + 1);
    }
    for (const char* key : {"additionalProperties", "unevaluatedProperties", "propertyNames",
                            "items", "unevaluatedItems"})
      if (has(object, key)) {
        // What a property's name must be is of type string by itself.
        value& inner = object.at(key);
        if (std::string_view(key) == "propertyNames" && inner.is<picojson::object>() &&
            !has(inner.get<picojson::object>(), "type") &&
            first_of(inner.get<picojson::object>(), kAlone) == nullptr)
          inner.get<picojson::object>()["type"] = value(std::string("string"));
        check(inner, at + "/" + key, depth + 1);
      }
    for (const char* key : {"prefixItems", "anyOf", "oneOf", "allOf"})
      if (has(object, key) && object.at(key).is<picojson::array>()) {
        auto& list = object.at(key).get<picojson::array>();
        if (std::string_view(key) == "allOf" && list.size() != 1)
          fail(at, "'allOf' of more than one is not supported");
        for (std::size_t i = 0; i < list.size(); ++i)
          check(list[i], fmt::format("{}/{}/{}", at, key, i), depth + 1);
      }
    if (has(object, "$ref")) check_ref(object.at("$ref").get<std::string>(), at, depth);
  }

  void check_ref(const std::string& uri, const std::string& at, int depth) {
    if (uri != "#" && !uri.starts_with("#/"))
      fail(at, fmt::format("'$ref' leads to '{}', not into the schema itself (#/..)", uri));
    value* target = &root_;
    for (std::size_t from = 2; from <= uri.size() && uri.size() > 1;) {
      const std::size_t end = std::min(uri.find('/', from), uri.size());
      const std::string part = uri.substr(from, end - from);
      if (!target->is<picojson::object>() || !has(target->get<picojson::object>(), part))
        fail(at, fmt::format("'$ref' leads to '{}', which is not there", uri));
      target = &target->get<picojson::object>().at(part);
      from = end + 1;
    }
    check(*target, uri.substr(1), depth + 1);
  }

  /// A schema that names no properties or items says nothing of them; xgrammar's strict mode, which
  /// leaves out those that are not named, would take that for none.
  static void open(picojson::object& object, const std::vector<std::string>& types) {
    const auto is_type = [&](const char* type) {
      return std::ranges::find(types, type) != types.end();
    };
    constexpr std::array kNames = {"properties", "additionalProperties", "unevaluatedProperties",
                                   "patternProperties", "propertyNames"};
    constexpr std::array kItems = {"items", "prefixItems", "unevaluatedItems"};
    if (is_type("object") && first_of(object, kNames) == nullptr)
      object["additionalProperties"] = value(true);
    if (is_type("array") && first_of(object, kItems) == nullptr) object["items"] = value(true);
  }

  value& root_;
  std::set<const value*> seen_;
};

/// Bounds what parsing may recurse.
void check_depth(const std::string& text) {
  int depth = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text) {
      if (c == '\\') ++i;
      is_text = c != '"';
    } else if (c == '"') {
      is_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 4 * kMostDepth)
        throw usage_error("JSON schema: it is nested deeper than {}", 4 * kMostDepth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

value parsed(const std::string& text) {
  check_depth(text);
  value root;
  const char* end = text.data() + text.size();
  std::string error;
  const char* at = picojson::parse(root, text.data(), end, &error);
  if (!error.empty())
    throw usage_error("JSON schema: it is no JSON: {}", error.substr(0, error.find('\n')));
  if (std::find_if(at, end, [](char c) { return !std::isspace(static_cast<unsigned char>(c)); }) !=
      end)
    throw usage_error("JSON schema: something follows it");
  return root;
}

void check_tags(value& part) {
  if (part.is<picojson::array>())
    for (value& each : part.get<picojson::array>()) check_tags(each);
  if (!part.is<picojson::object>()) return;
  auto& object = part.get<picojson::object>();
  const bool is_schema = has(object, "type") && object.at("type").is<std::string>() &&
                         object.at("type").get<std::string>() == "json_schema" &&
                         has(object, "json_schema");
  if (is_schema) {
    const SchemaCheck checked(object.at("json_schema"));
    return;
  }
  for (auto& [key, each] : object) check_tags(each);
}

}  // namespace

std::string checked_schema(const std::string& text) {
  value root = parsed(text);
  const SchemaCheck check(root);
  return root.serialize();
}

std::string checked_structural_tag(const std::string& text) {
  value root = parsed(text);
  check_tags(root);
  return root.serialize();
}

}  // namespace sinter::grammar
