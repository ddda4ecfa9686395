// SPDX-License-Identifier: Apache-2.0
// Reads one object of tokenizer.json: every field must be read, or it is refused by name.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "runtime/format_error.h"

namespace sinter::tools {

/// Throws Error(kUnsupported): `what` is unsupported, with a remedy.
[[noreturn]] void unsupported_part(const std::string& what);

class Fields {
 public:
  using Json = nlohmann::json;

  /// `what` names it in messages: "the normalizer 'Strip'". Throws Error(kUsage) if it is no
  /// object.
  Fields(const Json& object, std::string what);

  /// Null if absent or null.
  const Json* find(const char* key);
  /// Throws Error(kUsage) if absent.
  const Json& at(const char* key);
  template <typename T>
  T get(const char* key) {
    return convert<T>(key, at(key));
  }
  template <typename T>
  T get(const char* key, T otherwise) {
    const Json* const value = find(key);
    return value == nullptr ? std::move(otherwise) : convert<T>(key, *value);
  }
  /// A string of one character.
  std::string character(const char* key);
  std::string character(const char* key, const char* otherwise);
  /// Ignores fields that affect neither ids nor texts.
  void skip(std::initializer_list<const char*> keys) { read_.insert(keys.begin(), keys.end()); }
  /// Throws Error(kUnsupported) naming a field that was not read, unless it is null.
  void finish() const;

  const std::string& what() const { return what_; }

 private:
  template <typename T>
  T convert(const char* key, const Json& value) const {
    try {
      return value.get<T>();
    } catch (const Json::exception& error) {
      throw usage_error("not a tokenizer.json: {}: {}: {}", what_, key, error.what());
    }
  }

  const Json& object_;
  std::string what_;
  std::set<std::string> read_;
};

/// The field "type" of a part. Throws Error(kUsage) if it is no object.
std::string type_of(const Fields::Json& part);

/// Flattens `part`: a Sequence is replaced by its parts under `key`, recursively. `kind`, such as
/// "normalizer", is for messages.
std::vector<const Fields::Json*> parts_of(const Fields::Json* part, const char* kind,
                                          const char* key);

}  // namespace sinter::tools
