// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/line_editor.h"

#include <algorithm>
#include <cerrno>
#include <cwchar>
#include <optional>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace sinter::tools {
namespace {

constexpr std::size_t kMostHistory = 1000;
constexpr int kControlMask = 0x1f;
constexpr char control(char letter) { return static_cast<char>(letter & kControlMask); }
constexpr char kEscape = 27, kDelete = 127;

/// Bytes of the UTF-8 character that begins with `first`; 1 for what begins none.
std::size_t size_of_character(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF8 ? 4 : 1;
}

/// Columns on a terminal: none for marks that join the character before, two for wide ones.
std::size_t columns_of(const std::string& character) {
  char32_t code = static_cast<unsigned char>(character[0]);
  if (character.size() > 1) {
    code &= (char32_t{1} << (7 - character.size())) - 1;
    for (std::size_t i = 1; i < character.size(); ++i)
      code = code << 6 | (static_cast<unsigned char>(character[i]) & 0x3F);
  }
  const bool joins = (code >= 0x300 && code < 0x370) || (code >= 0x200B && code <= 0x200F) ||
                     (code >= 0xFE00 && code <= 0xFE0F);
  if (joins) return 0;
  const bool is_wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
                       (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
                       (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                       (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) ||
                       (code >= 0x20000 && code <= 0x3FFFD);
  return is_wide ? 2 : 1;
}

/// While it lives, keys arrive one by one, and are not shown.
class RawTerminal {
 public:
  RawTerminal() {
    is_raw_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!is_raw_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~RawTerminal() {
    if (is_raw_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  bool is_raw() const { return is_raw_; }

 private:
  termios before_{};
  bool is_raw_ = false;
};

std::optional<char> read_byte() {
  char byte = 0;
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 1) return byte;
    if (count == 0 || errno != EINTR) return std::nullopt;
  }
}

void write_terminal(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return;
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

/// Keys that are more than one byte, by what they do as one.
char key_of_escape() {
  const auto kind = read_byte();
  if (!kind || (*kind != '[' && *kind != 'O')) return 0;
  const auto key = read_byte();
  switch (key.value_or(0)) {
    case 'A': return control('P');
    case 'B': return control('N');
    case 'C': return control('F');
    case 'D': return control('B');
    case 'H': return control('A');
    case 'F': return control('E');
    default: break;
  }
  if (!key || *key < '0' || *key > '9') return 0;
  std::optional<char> last = key;
  while (last && (*last == ';' || (*last >= '0' && *last <= '9'))) last = read_byte();
  if (last.value_or(0) != '~') return 0;
  constexpr char kRemove = '3', kHome = '1', kHome2 = '7', kEnd = '4', kEnd2 = '8';
  switch (*key) {
    case kRemove: return kEscape;  // the key "delete"
    case kHome:
    case kHome2: return control('A');
    case kEnd:
    case kEnd2: return control('E');
    default: return 0;
  }
}

}  // namespace

void EditedLine::insert(const std::string& character) {
  characters_.insert(characters_.begin() + static_cast<std::ptrdiff_t>(at_), character);
  ++at_;
}

void EditedLine::erase_before() {
  if (at_ == 0) return;
  left();
  erase_at();
}

void EditedLine::erase_at() {
  if (at_ < characters_.size())
    characters_.erase(characters_.begin() + static_cast<std::ptrdiff_t>(at_));
}

void EditedLine::erase_word() {
  while (at_ > 0 && characters_[at_ - 1] == " ") erase_before();
  while (at_ > 0 && characters_[at_ - 1] != " ") erase_before();
}

void EditedLine::erase_to_start() {
  characters_.erase(characters_.begin(), characters_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
}

void EditedLine::set(const std::string& text) {
  characters_.clear();
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = std::min(size_of_character(text[i]), text.size() - i);
    characters_.push_back(text.substr(i, size));
    i += size;
  }
  to_end();
}

std::string EditedLine::text() const {
  std::string text;
  for (const std::string& character : characters_) text += character;
  return text;
}

EditedLine::View EditedLine::view(std::size_t columns) const {
  std::size_t first = at_, used = 0;
  while (first > 0 && used + columns_of(characters_[first - 1]) < columns)
    used += columns_of(characters_[--first]);
  View view;
  view.cursor = used;
  for (std::size_t i = first; i < characters_.size(); ++i) {
    if (i >= at_) used += columns_of(characters_[i]);
    if (i >= at_ && used >= columns) break;
    view.text += characters_[i];
  }
  return view;
}

LineEditor::Outcome LineEditor::edit(const std::string& prompt, std::string& line) {
  EditedLine edited;
  std::string draft;  // what was typed before the history was walked
  std::size_t place = history_.size();
  const auto show = [&] {
    const std::size_t columns = terminal_columns();
    const auto view = edited.view(columns > prompt.size() + 2 ? columns - prompt.size() : 2);
    std::string text = "\r" + prompt + view.text + "\x1b[K\r";
    const std::size_t cursor = prompt.size() + view.cursor;
    if (cursor > 0) text += fmt::format("\x1b[{}C", cursor);
    write_terminal(text);
  };
  const auto walk = [&](std::size_t to) {
    if (place == history_.size()) draft = edited.text();
    place = to;
    edited.set(place == history_.size() ? draft : history_[place]);
  };
  for (;;) {
    show();
    auto byte = read_byte();
    if (!byte) return Outcome::kEnd;
    if (*byte == kEscape) {
      byte = key_of_escape();
      if (*byte == kEscape) {
        edited.erase_at();
        continue;
      }
    } else if (*byte == '\0') {
      // Ctrl-D typed before this prompt: Linux keeps it as NUL when the terminal leaves its line
      // mode.
      byte = control('D');
    }
    switch (*byte) {
      case '\r':
      case '\n':
        line = edited.text();
        write_terminal("\r\n");
        return Outcome::kLine;
      case control('C'): write_terminal("^C\r\n"); return Outcome::kInterrupted;
      case control('D'):
        if (edited.is_empty()) {
          write_terminal("\r\n");
          return Outcome::kEnd;
        }
        edited.erase_at();
        break;
      case kDelete:
      case control('H'): edited.erase_before(); break;
      case control('A'): edited.to_start(); break;
      case control('E'): edited.to_end(); break;
      case control('B'): edited.left(); break;
      case control('F'): edited.right(); break;
      case control('K'): edited.erase_to_end(); break;
      case control('U'): edited.erase_to_start(); break;
      case control('W'): edited.erase_word(); break;
      case control('L'): write_terminal("\x1b[H\x1b[2J"); break;
      case control('P'):
        if (place > 0) walk(place - 1);
        break;
      case control('N'):
        if (place < history_.size()) walk(place + 1);
        break;
      default: {
        if (static_cast<unsigned char>(*byte) < ' ' && *byte != '\t') break;
        std::string character(1, *byte);
        const std::size_t size = size_of_character(*byte);
        while (character.size() < size) {
          const auto next = read_byte();
          if (!next) return Outcome::kEnd;
          character += *next;
        }
        edited.insert(character == "\t" ? " " : character);
      }
    }
  }
}

LineEditor::Outcome LineEditor::read(const std::string& prompt, std::string& line) {
  line.clear();
  if (!edits_) {
    if (!std::getline(input_, line)) return Outcome::kEnd;
    if (line.ends_with('\r')) line.pop_back();
    return Outcome::kLine;
  }
  Outcome outcome = Outcome::kEnd;
  {
    const RawTerminal raw;
    if (raw.is_raw()) outcome = edit(prompt, line);
  }
  if (outcome == Outcome::kLine && !line.empty() && (history_.empty() || history_.back() != line)) {
    history_.push_back(line);
    if (history_.size() > kMostHistory) history_.erase(history_.begin());
  }
  return outcome;
}

}  // namespace sinter::tools
