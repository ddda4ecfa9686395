#include "codegen/cuda/code_text.h"

namespace sinter::codegen {

void CodeText::line(std::string_view text) {
  // Preprocessor lines start at the margin, as is the custom.
  if (!text.starts_with('#')) text_.append(static_cast<std::size_t>(indent_) * 2, ' ');
  text_.append(text);
  text_.push_back('\n');
}

void CodeText::open(std::string_view header) {
  braces_.push_back(!header.empty());
  if (header.empty()) return;
  line(std::string(header) + " {");
  ++indent_;
}

void CodeText::close() {
  const bool brace = braces_.back();
  braces_.pop_back();
  if (!brace) return;
  --indent_;
  line("}");
}

}  // namespace sinter::codegen
