// SPDX-License-Identifier: Apache-2.0
// What makes tokens of pieces of text: the "model" of tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/parts/passage.h"

namespace sinter::tools {

/// Names and ids of tokens.
class Vocabulary {
 public:
  /// A known name gets the new id. Throws Error(kUsage) for ids outside the limit.
  void add(std::string name, TokenId id);
  /// Reads an object of names and ids.
  void read(const Fields::Json& object);

  std::optional<TokenId> find(std::string_view name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Nullopt for unknown ids.
  std::optional<std::string_view> name_of(TokenId id) const;
  /// Number of names; the largest id plus 1.
  std::size_t size() const { return ids_.size(); }
  TokenId limit() const { return static_cast<TokenId>(names_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> names_;  // by id
};

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the tokens of `piece`, which is non-empty UTF-8. Throws Error(kUsage) for a piece
  /// without tokens.
  virtual void encode(std::string_view piece, std::vector<TokenId>& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Number of tokens: the id of the first new added token.
  virtual TokenId size() const { return static_cast<TokenId>(vocabulary_.size()); }

 protected:
  Vocabulary vocabulary_;
};

}  // namespace sinter::tools
