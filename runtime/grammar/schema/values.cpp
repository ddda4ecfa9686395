// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema/values.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

constexpr int kMostNesting = 256;

/// Limits the parser's recursion.
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
      if (++depth > kMostNesting) throw usage_error("it is nested deeper than {}", kMostNesting);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace

value parsed(const std::string& text) {
  check_depth(text);
  value root;
  const char* end = text.data() + text.size();
  std::string error;
  const char* at = picojson::parse(root, text.data(), end, &error);
  if (!error.empty()) throw usage_error("it is no JSON: {}", error.substr(0, error.find('\n')));
  if (std::find_if(at, end, [](char c) { return !std::isspace(static_cast<unsigned char>(c)); }) !=
      end)
    throw usage_error("something follows it");
  return root;
}

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\b': result += "\\b"; break;
      case '\f': result += "\\f"; break;
      case '\n': result += "\\n"; break;
      case '\r': result += "\\r"; break;
      case '\t': result += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          result += c;
    }
  }
  return result + '"';
}

std::string json_text(const value& one) {
  if (one.is<picojson::null>()) return "null";
  if (one.is<bool>()) return one.get<bool>() ? "true" : "false";
  if (one.is<std::int64_t>()) return std::to_string(one.get<std::int64_t>());
  if (one.is<double>()) return fmt::format("{}", one.get<double>());
  if (one.is<std::string>()) return json_text(std::string_view(one.get<std::string>()));
  std::string result;
  if (one.is<picojson::array>()) {
    for (const value& each : one.get<picojson::array>())
      result += (result.empty() ? "" : ",") + json_text(each);
    return "[" + result + "]";
  }
  const auto& object = one.get<Members>();
  for (const std::string& key : object.ordered_keys())
    result += (result.empty() ? "" : ",") + json_text(std::string_view(key)) + ":" +
              json_text(object.at(key));
  return "{" + result + "}";
}

Types type_of(const value& one) {
  if (one.is<picojson::null>()) return kNull;
  if (one.is<bool>()) return kBoolean;
  if (one.is<std::int64_t>()) return kInteger | kNumber;
  if (one.is<double>()) {
    const double number = one.get<double>();
    return number == std::floor(number) ? kInteger | kNumber : kNumber;
  }
  if (one.is<std::string>()) return kString;
  if (one.is<picojson::array>()) return kArray;
  return kObject;
}

Types type_named(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber | kInteger;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  return name == "object" ? kObject : 0;
}

}  // namespace sinter::grammar
