// SPDX-License-Identifier: Apache-2.0
// Tokens that a tokenizer puts around texts: the "post_processor" of tokenizer.json.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/parts/passage.h"

namespace sinter::tools {

/// Ids in parts: of one text, or of two, and what stands around them.
using Encodings = std::vector<std::vector<TokenId>>;

/// One part. Each does what the part of its name does in Hugging Face's library.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// Throws Error(kUnsupported) for numbers of parts that it does not take.
  virtual Encodings apply(Encodings encodings, bool adds_special) const = 0;
  /// Special tokens around one text, or two.
  virtual std::size_t count(bool is_pair) const = 0;
};

class PostProcessors {
 public:
  /// `part` of null: none. Throws Error(kUnsupported) for a part that is not known, by its name.
  void read(const Fields::Json* part);
  std::vector<TokenId> apply(Encodings encodings, bool adds_special) const;
  std::size_t count(bool is_pair) const;

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

}  // namespace sinter::tools
