// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/models/read_model.h"

#include "tools/tokenizer/models/byte_pairs.h"
#include "tools/tokenizer/models/unigram.h"
#include "tools/tokenizer/models/words.h"

namespace sinter::tools {
namespace {

/// Old files have no type.
std::string kind_of(const Fields::Json& model) {
  if (!model.is_object()) throw usage_error("not a tokenizer.json: the model is no object");
  if (model.contains("type")) return type_of(model);
  if (model.contains("merges")) return "BPE";
  if (model.contains("vocab") && model.at("vocab").is_array()) return "Unigram";
  return model.contains("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

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
