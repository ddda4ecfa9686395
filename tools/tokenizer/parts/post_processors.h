// SPDX-License-Identifier: Apache-2.0
// Tokens that a tokenizer puts around texts: the "post_processor" of tokenizer.json.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/parts/passage.h"

namespace sinter::tools {

/// Ids in parts: of one or two texts, and of the special tokens around them.
using Encodings = std::vector<std::vector<TokenId>>;

/// One part, equivalent to the part of its name in Hugging Face's library.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// Throws Error(kUnsupported) for an unsupported number of parts.
  virtual Encodings apply(Encodings encodings, bool adds_special) const = 0;
  /// Number of special tokens around one text, or two.
  virtual std::size_t count(bool is_pair) const = 0;
};

class PostProcessors {
 public:
  /// `part` = null: none. Throws Error(kUnsupported), naming it, for an unknown part.
  void read(const Fields::Json* part);
  std::vector<TokenId> apply(Encodings encodings, bool adds_special) const;
  std::size_t count(bool is_pair) const;

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

}  // namespace sinter::tools
