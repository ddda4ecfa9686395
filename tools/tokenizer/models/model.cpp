#include "tools/tokenizer/models/model.h"

#include "tools/tokenizer/models/byte_pairs.h"
#include "tools/tokenizer/models/unigram.h"
#include "tools/tokenizer/models/words.h"

namespace sinter::tools {
namespace {

/// Files of old have no types.
std::string kind_of(const Fields::Json& model) {
  if (!model.is_object()) throw usage_error("not a tokenizer.json: the model is no object");
  if (model.contains("type")) return type_of(model);
  if (model.contains("merges")) return "BPE";
  if (model.contains("vocab") && model.at("vocab").is_array()) return "Unigram";
  return model.contains("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

void Vocabulary::add(std::string name, TokenId id) {
  // More than any vocabulary has: ids become sizes of tables.
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

std::unique_ptr<const Model> read_model(const Fields::Json& model) {
  const std::string kind = kind_of(model);
  Fields fields(model, fmt::format("the model '{}'", kind));
  std::unique_ptr<const Model> result;
  if (kind == "BPE")
    result = std::make_unique<BytePairs>(fields);
  else if (kind == "Unigram")
    result = std::make_unique<Unigram>(fields);
  else if (kind == "WordPiece")
    result = std::make_unique<WordPieces>(fields);
  else if (kind == "WordLevel")
    result = std::make_unique<WordLevel>(fields);
  else
    unsupported_part(fields.what());
  fields.finish();
  return result;
}

}  // namespace sinter::tools
