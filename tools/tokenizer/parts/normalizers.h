// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text first: the "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/parts/passage.h"
#include "tools/tokenizer/unicode/text_pattern.h"

namespace sinter::tools {

/// One part. Each does what the part of its name does in Hugging Face's library.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` is UTF-8, and so is what is written.
  virtual void apply(std::string_view text, Rewriter& writer) const = 0;
};

class Normalizers {
 public:
  /// `part` of null: none. Throws Error(kUnsupported) for a part that is not known, by its name.
  void read(const Fields::Json* part);
  bool is_empty() const { return parts_.empty(); }
  void apply(Fragment& fragment) const;

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

/// The pattern of Replace and Split.
TextPattern pattern_of(Fields& fields);

}  // namespace sinter::tools
