// SPDX-License-Identifier: Apache-2.0
// What sentence-transformers writes beside a model that makes vectors of texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tools/serve/models/embedder.h"

namespace sinter::tools {

struct EmbeddingFiles {
  std::optional<Pooling> pooling;         // modules.json and its Pooling's config.json
  std::optional<bool> normalizes;         // whether modules.json has a Normalize
  std::optional<std::size_t> max_tokens;  // sentence_bert_config.json

  /// Of a folder, or of the one above if it is called `onnx`. Nothing is set of files that are not
  /// there. Throws Error(kUsage) for modules and poolings that are not supported, by name.
  static EmbeddingFiles in(const std::string& folder);
};

}  // namespace sinter::tools
