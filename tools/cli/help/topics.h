// SPDX-License-Identifier: Apache-2.0
// Pages that the command shows by itself, since who installed it has no source tree: topics.txt
// says which. Errors name them as `sinter help TOPIC`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

/// A file that was put into the binary: a page by its topic, or a JSON Schema by its verb.
struct HelpFile {
  std::string_view name, text;
};
const std::vector<HelpFile>& help_pages();
const std::vector<HelpFile>& json_schemas();

struct Topic {
  std::string name, summary;
};
/// In the order of topics.txt.
std::vector<Topic> topics();

/// The file called `name`, or null.
const HelpFile* find_file(const std::vector<HelpFile>& files, std::string_view name);

/// Markdown for a terminal: paragraphs and list items in lines of `width`, links as their texts;
/// tables and code stay as they are.
std::string page_text(std::string_view markdown, std::size_t width);

}  // namespace sinter::tools
