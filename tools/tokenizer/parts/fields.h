// SPDX-License-Identifier: Apache-2.0
// Reading of one object of tokenizer.json: each of its fields is read, or refused by name.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "runtime/format_error.h"

namespace sinter::tools {

/// Throws Error(kUnsupported) that says `what` is not supported, and what to do.
[[noreturn]] void unsupported_part(const std::string& what);

class Fields {
 public:
  using Json = nlohmann::json;

  /// `what` is it, for messages: "the normalizer 'Strip'". Throws Error(kUsage) for what is no
  /// object.
  Fields(const Json& object, std::string what);

  /// Null if it is not there, or null.
  const Json* find(const char* key);
  /// Throws Error(kUsage) if it is not there.
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
  /// One character.
  std::string character(const char* key);
  std::string character(const char* key, const char* otherwise);
  /// Fields that change neither ids nor texts.
  void skip(std::initializer_list<const char*> keys) { read_.insert(keys.begin(), keys.end()); }
  /// Throws Error(kUnsupported) that names a field which was not read, unless it is null.
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

/// The field "type" of a part. Throws Error(kUsage) for what is no object.
std::string type_of(const Fields::Json& part);

/// `part` and, where it is a Sequence of parts under `key`, those, and so on. `kind`, as
/// "normalizer", is for messages.
std::vector<const Fields::Json*> parts_of(const Fields::Json* part, const char* kind,
                                          const char* key);

}  // namespace sinter::tools
