// SPDX-License-Identifier: Apache-2.0
// What sentence-transformers writes beside a model that makes vectors or scores of texts.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/models/text_pooling.h"
#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

/// How a query and a document become one text, by the chat template: a message of each role.
struct PairMessages {
  bool has_parts = false;  // contents are lists of parts, else texts
  bool asks = false;       // add_generation_prompt
};

struct EmbeddingFiles {
  std::optional<Pooling> pooling;         // modules.json and its Pooling's config.json
  bool includes_prompt = true;            // whether a prompt's tokens are pooled, too
  std::vector<DenseLayer> dense;          // behind the pooling, in their order
  std::optional<bool> normalizes;         // whether modules.json has a Normalize
  std::optional<std::size_t> max_tokens;  // sentence_bert_config.json
  std::optional<PairMessages> pairs;      // of a LogitScore, in place of pairs of texts
  /// config_sentence_transformers.json: texts that stand before others, by name.
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt;  // a name among them

  /// Of a folder. Nothing is set of files that are not there. Throws Error(kUsage) for modules,
  /// poolings and activations that are not supported, by name.
  /// `pooling`: one of pooling_options(), in place of the files'; empty: none.
  static EmbeddingFiles in(const std::string& folder, std::string_view pooling = "");
  /// The prompt called `name`; without a name the default one, or nothing. Throws Error(kUsage)
  /// that lists the names for one that there is not.
  const std::string& prompt(const std::optional<std::string>& name) const;
  /// Tokens of a text behind `prompt` that are not pooled.
  std::size_t skipped(const Tokenizer& tokenizer, const std::string& prompt) const;
};

}  // namespace sinter::tools
