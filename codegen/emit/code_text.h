// SPDX-License-Identifier: Apache-2.0
// Source text under construction: lines with indentation by braces.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::codegen {

class CodeText {
 public:
  explicit CodeText(int indent = 0) : indent_(indent) {}
  void line(std::string_view text);
  /// "const TYPE NAME = ...": omitted from the text if nothing after it in its scope uses NAME.
  void declare(std::string_view text);
  /// A definition; omitted if the scope has the same one already (two passes over a row without
  /// loops).
  void define(std::string_view text);
  /// "header {", indented from here on. An empty header opens nothing.
  void open(std::string_view header);
  /// Closes what the matching open() opened.
  void close(std::string_view behind = {});  // `behind`: text after the brace
  /// The whole text; ends the outermost scope.
  std::string text();

 private:
  struct Declaration {
    std::size_t line = 0;
    std::string name;
  };
  struct Scope {
    bool brace = true;
    std::vector<Declaration> declarations;
    std::set<std::string, std::less<>> definitions;
  };
  Scope& declaring_scope();
  void drop_unused(const Scope& scope);

  std::vector<std::string> lines_;
  std::vector<Scope> scopes_ = {Scope{}};
  int indent_ = 0;
};

}  // namespace sinter::codegen
