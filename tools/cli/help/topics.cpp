// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/help/topics.h"

#include <algorithm>
#include <sstream>

#include "tools/cli/help/help_text.h"

namespace sinter::tools {
namespace {

/// Replaces links by their text: "[verify](README.md)" becomes "verify".
std::string without_links(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('[', at);
    const std::size_t middle = open == text.npos ? open : text.find("](", open);
    const std::size_t end = middle == text.npos ? middle : text.find(')', middle);
    if (end == text.npos) return result + text.substr(at);
    const std::size_t begin = text[open == 0 ? 0 : open - 1] == '!' ? open - 1 : open;
    result += text.substr(at, begin - at) + text.substr(open + 1, middle - open - 1);
    at = end + 1;
  }
  return result;
}

/// Indentation of a list item's text ("- " or "1. "); 0 for other lines.
std::size_t item_indent(std::string_view line) {
  const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view rest = line.substr(start);
  if (rest.starts_with("- ") || rest.starts_with("* ")) return start + 2;
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  return digits > 0 && rest.substr(digits).starts_with(". ") ? start + digits + 2 : 0;
}

/// Reads lines and prints each paragraph at its end.
class Page {
 public:
  explicit Page(std::size_t width) : width_(width) {}

  void add(const std::string& line) {
    if (line.starts_with("```")) {
      end_paragraph();
      in_code_ = !in_code_;
    } else if (in_code_) {
      text_ += "    " + line + '\n';
    } else if (line.empty() || line.starts_with('|') || line.starts_with('#')) {
      end_paragraph();
      text_ += without_links(line) + '\n';
    } else if (const std::size_t indent = item_indent(line); indent > 0) {
      end_paragraph();
      lead_ = line.substr(0, indent);
      paragraph_ = line.substr(indent);
    } else {
      paragraph_ += ' ' + line;
    }
  }

  std::string text() {
    end_paragraph();
    return std::move(text_);
  }

 private:
  void end_paragraph() {
    if (!paragraph_.empty())
      text_ += lead_ + wrap(without_links(paragraph_), lead_.size(), width_) + '\n';
    paragraph_.clear();
    lead_.clear();
  }

  std::size_t width_;
  std::string text_, paragraph_, lead_;
  bool in_code_ = false;
};

}  // namespace

std::vector<Topic> topics() {
  std::vector<Topic> all;
  const HelpFile* list = find_file(help_pages(), "topics.txt");
  std::istringstream lines{std::string(list->text)};
  for (std::string line; std::getline(lines, line);)
    all.push_back({line.substr(0, line.find('|')), line.substr(line.rfind('|') + 1)});
  return all;
}

const HelpFile* find_file(const std::vector<HelpFile>& files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &HelpFile::name);
  return found == files.end() ? nullptr : &*found;
}

std::string page_text(std::string_view markdown, std::size_t width) {
  Page page(width);
  std::istringstream lines{std::string(markdown)};
  for (std::string line; std::getline(lines, line);) page.add(line);
  return page.text();
}

}  // namespace sinter::tools
