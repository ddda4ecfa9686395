// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/fields.h"

#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {

void unsupported_part(const std::string& what) {
  throw unsupported_error(
      "tokenizer: {} is not supported: `sinter help tokenizer` says what is (or encode elsewhere "
      "and give ids)",
      what);
}

Fields::Fields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
  if (!object.is_object()) throw usage_error("not a tokenizer.json: {} is no object", what_);
  read_.insert("type");
}

const Fields::Json* Fields::find(const char* key) {
  read_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Fields::Json& Fields::at(const char* key) {
  if (const Json* const value = find(key)) return *value;
  throw usage_error("not a tokenizer.json: {} has no '{}'", what_, key);
}

std::string Fields::character(const char* key) {
  auto text = get<std::string>(key);
  std::size_t at = 0;
  if (!text.empty()) unicode::next_character(text, at);
  if (at == 0 || at != text.size())
    throw usage_error("not a tokenizer.json: {}: {} is '{}', which is not one character", what_,
                      key, text);
  return text;
}

std::string Fields::character(const char* key, const char* otherwise) {
  return find(key) == nullptr ? otherwise : character(key);
}

void Fields::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!read_.contains(key) && !value.is_null())
      unsupported_part(fmt::format("the field '{}' of {}", key, what_));
}

std::string type_of(const Fields::Json& part) {
  if (!part.is_object()) throw usage_error("not a tokenizer.json: a part is no object");
  return part.value("type", std::string("a part without a type"));
}

std::vector<const Fields::Json*> parts_of(const Fields::Json* part, const char* kind,
                                          const char* key) {
  if (part == nullptr) return {};
  if (type_of(*part) != "Sequence") return {part};
  std::vector<const Fields::Json*> result;
  Fields fields(*part, fmt::format("the {} 'Sequence'", kind));
  for (const Fields::Json& inner : fields.at(key))
    for (const Fields::Json* leaf : parts_of(&inner, kind, key)) result.push_back(leaf);
  fields.finish();
  return result;
}

}  // namespace sinter::tools
