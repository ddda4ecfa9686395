// SPDX-License-Identifier: Apache-2.0
// Lines that a person types at a terminal, with history; other inputs line by line.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

namespace sinter::tools {

/// A line of UTF-8 under edit: characters are whole, and as wide as a terminal shows them.
class EditedLine {
 public:
  void insert(const std::string& character);
  void erase_before();
  void erase_at();
  void erase_word();
  void erase_to_end() { characters_.resize(at_); }
  void erase_to_start();
  void set(const std::string& text);
  void left() { at_ -= at_ > 0 ? 1 : 0; }
  void right() { at_ += at_ < characters_.size() ? 1 : 0; }
  void to_start() { at_ = 0; }
  void to_end() { at_ = characters_.size(); }
  bool is_empty() const { return characters_.empty(); }
  std::string text() const;

  /// What of the line fits into `columns` around the cursor, and the cursor's column in it.
  struct View {
    std::string text;
    std::size_t cursor = 0;
  };
  View view(std::size_t columns) const;

 private:
  std::vector<std::string> characters_;
  std::size_t at_ = 0;  // the cursor stands in front of this one
};

class LineEditor {
 public:
  /// Reads `input`, unless it is std::cin and that a terminal, which `edits`.
  LineEditor(std::istream& input, bool edits) : input_(input), edits_(edits) {}

  enum class Outcome { kLine, kInterrupted, kEnd };
  /// One line without its end. Ctrl-C drops what was typed, Ctrl-D ends where nothing was. The
  /// prompt goes to stderr.
  Outcome read(const std::string& prompt, std::string& line);

 private:
  Outcome edit(const std::string& prompt, std::string& line);

  std::istream& input_;
  bool edits_;
  std::vector<std::string> history_;
};

}  // namespace sinter::tools
