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

/// Names of tokens and their ids.
class Vocabulary {
 public:
  /// A name that is there gets the new id. Throws Error(kUsage) for ids that no vocabulary has.
  void add(std::string name, TokenId id);
  /// As an object of names and ids.
  void read(const Fields::Json& object);

  std::optional<TokenId> find(std::string_view name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Empty for ids that do not exist.
  std::optional<std::string_view> name_of(TokenId id) const;
  /// How many names there are, and one more than the largest id.
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
  /// Appends the tokens of `piece`, which is UTF-8 and not empty. Throws Error(kUsage) for a piece
  /// that has none.
  virtual void encode(std::string_view piece, std::vector<TokenId>& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Tokens: the first added one that is new has this id.
  virtual TokenId size() const { return static_cast<TokenId>(vocabulary_.size()); }

 protected:
  Vocabulary vocabulary_;
};

}  // namespace sinter::tools
