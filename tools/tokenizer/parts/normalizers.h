// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text first: the "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/parts/passage.h"
#include "tools/tokenizer/unicode/text_pattern.h"

namespace sinter::tools {

/// One part, equivalent to the part of its name in Hugging Face's library.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` and the output are UTF-8.
  virtual void apply(std::string_view text, Rewriter& writer) const = 0;
};

class Normalizers {
 public:
  /// `part` = null: none. Throws Error(kUnsupported), naming it, for an unknown part.
  void read(const Fields::Json* part);
  bool is_empty() const { return parts_.empty(); }
  void apply(Fragment& fragment) const;

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

/// The pattern of a Replace or Split.
TextPattern pattern_of(Fields& fields);

}  // namespace sinter::tools
