// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/code_text.h"

#include <cctype>

namespace sinter::codegen {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool uses(const std::string& line, const std::string& name) {
  for (std::size_t at = 0; (at = line.find(name, at)) != std::string::npos; ++at) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(line[at - 1])) && (end == line.size() || !is_word(line[end])))
      return true;
  }
  return false;
}

}  // namespace

void CodeText::line(std::string_view text) {
  // Preprocessor lines start in column 1.
  const std::string indent(text.starts_with('#') ? 0 : static_cast<std::size_t>(indent_) * 2, ' ');
  const std::size_t then = text.find(" ? "), otherwise = text.rfind(" : ");
  if (indent.size() + text.size() > 100 && then != text.npos && otherwise != text.npos) {
    for (const std::string_view part :
         {text.substr(0, then), text.substr(then, otherwise - then), text.substr(otherwise)})
      lines_.push_back(indent + std::string(part.data() == text.data() ? "" : "   ") +
                       std::string(part));
    return;
  }
  lines_.push_back(indent + std::string(text));
}

CodeText::Scope& CodeText::declaring_scope() {
  std::size_t at = scopes_.size() - 1;
  while (!scopes_[at].brace) --at;
  return scopes_[at];
}

void CodeText::declare(std::string_view text) {
  const std::size_t equals = text.find(" = ");
  const std::size_t start = text.rfind(' ', equals - 1) + 1;
  declaring_scope().declarations.push_back(
      {lines_.size(), std::string(text.substr(start, equals - start))});
  line(text);
}

void CodeText::define(std::string_view text) {
  if (declaring_scope().definitions.emplace(text).second) line(text);
}

void CodeText::open(std::string_view header) {
  if (!header.empty()) {
    line(std::string(header) + " {");
    ++indent_;
  }
  scopes_.push_back({!header.empty(), {}, {}});
}

void CodeText::close(std::string_view behind) {
  const Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  if (!scope.brace) return;
  drop_unused(scope);
  --indent_;
  line("}" + std::string(behind));
}

void CodeText::drop_unused(const Scope& scope) {
  // Backwards, as a declaration used only by unused ones is unused too.
  for (std::size_t d = scope.declarations.size(); d-- > 0;) {
    const Declaration& declaration = scope.declarations[d];
    bool used = false;
    for (std::size_t l = declaration.line + 1; l < lines_.size() && !used; ++l)
      used = uses(lines_[l], declaration.name);
    if (!used) lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(declaration.line));
  }
}

std::string CodeText::text() {
  drop_unused(scopes_.front());
  scopes_.front().declarations.clear();
  std::string text;
  for (const std::string& line : lines_) text.append(line).push_back('\n');
  return text;
}

}  // namespace sinter::codegen
