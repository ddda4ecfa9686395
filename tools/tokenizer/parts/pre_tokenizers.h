// SPDX-License-Identifier: Apache-2.0
// Where a tokenizer cuts text before it looks for tokens: the "pre_tokenizer" of tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/parts/passage.h"

namespace sinter::tools {

/// One part, equivalent to the part of its name in Hugging Face's library.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Passage& passage) const = 0;
  /// Whether it needs the origin of a piece in the text.
  virtual bool needs_origins() const { return false; }
};

class PreTokenizers {
 public:
  /// `part` = null: none. Throws Error(kUnsupported), naming it, for an unknown part.
  void read(const Fields::Json* part);
  bool needs_origins() const;
  void apply(Passage& passage) const {
    for (const auto& part : parts_) part->apply(passage);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

/// Options of Metaspace, which is a pre-tokenizer and a decoder.
struct Metaspace {
  enum class Prefix : char { kNever, kFirst, kAlways };
  std::string blank;  // replaces a space; may also be prepended to a text
  Prefix prefix = Prefix::kAlways;
  bool splits = true;

  static Metaspace read(Fields& fields);
};

}  // namespace sinter::tools
