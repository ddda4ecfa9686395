// SPDX-License-Identifier: Apache-2.0
// Help pages embedded in the command, because an installed command has no source tree: topics.txt
// lists them. Errors refer to them as `sinter help TOPIC`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

/// A file embedded in the binary: a page by topic, or a JSON Schema by verb.
struct HelpFile {
  std::string_view name, text;
};
const std::vector<HelpFile>& help_pages();
const std::vector<HelpFile>& json_schemas();

struct Topic {
  std::string name, summary;
};
/// The topics in the order of topics.txt.
std::vector<Topic> topics();

/// The file with this name, or null.
const HelpFile* find_file(const std::vector<HelpFile>& files, std::string_view name);

/// Formats Markdown for a terminal: wraps paragraphs and list items to `width`, replaces links by
/// their text, and keeps tables and code.
std::string page_text(std::string_view markdown, std::size_t width);

}  // namespace sinter::tools
