// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/models/model.h"

namespace sinter::tools {
void Vocabulary::add(std::string name, TokenId id) {
  // Above any real vocabulary; ids become sizes of tables.
  constexpr TokenId kMostTokens = 1 << 24;
  if (id < 0 || id >= kMostTokens)
    throw usage_error("tokenizer: token '{}' has the id {}", name, id);
  if (names_.size() <= static_cast<std::size_t>(id))
    names_.resize(static_cast<std::size_t>(id) + 1);
  const auto [entry, is_new] = ids_.insert_or_assign(std::move(name), id);
  names_[static_cast<std::size_t>(id)] = &entry->first;
}

void Vocabulary::read(const Fields::Json& object) {
  if (!object.is_object()) throw usage_error("not a tokenizer.json: the vocabulary is no object");
  ids_.reserve(object.size());
  for (const auto& [name, id] : object.items()) {
    if (!id.is_number_integer())
      throw usage_error("not a tokenizer.json: token '{}' has the id {}", name, id.dump());
    add(name, id.get<TokenId>());
  }
}

std::optional<std::string_view> Vocabulary::name_of(TokenId id) const {
  if (id < 0 || id >= limit() || names_[static_cast<std::size_t>(id)] == nullptr)
    return std::nullopt;
  return *names_[static_cast<std::size_t>(id)];
}

}  // namespace sinter::tools
