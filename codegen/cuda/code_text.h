// Source text under construction: lines with indentation by braces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinter::codegen {

class CodeText {
 public:
  explicit CodeText(int indent = 0) : indent_(indent) {}
  void line(std::string_view text);
  /// "header {", indented from here on. An empty header opens nothing.
  void open(std::string_view header);
  /// Closes what the matching open() opened.
  void close();
  void lines(const std::vector<std::string>& all) {
    for (const std::string& text : all) line(text);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<bool> braces_;
  int indent_ = 0;
};

}  // namespace sinter::codegen
