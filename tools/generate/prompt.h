// SPDX-License-Identifier: Apache-2.0
// What `generate` is asked: text or ids, a chat template around it, what ends the answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tokenizer/tokenizer.h"

namespace sinter::tools {

struct PromptOptions {
  std::string text;                // "-": standard input
  std::string ids;                 // "1,2,3", or a file of numbers
  std::string template_file;       // {prompt} in it stands for the text
  std::vector<std::string> stops;  // ids, or names of tokens
};

/// Numbers divided by commas or white space. Throws Error(kUsage) quoting what is none.
std::vector<std::int64_t> parse_ids(std::string_view text);

/// Ids of the prompt. Throws Error(kUsage) if it is empty, a file cannot be read or text is given
/// without a tokenizer.
std::vector<std::int64_t> prompt_ids(const PromptOptions& options, const Tokenizer* tokenizer);

/// What a tokenizer file says of the lengths of texts and does not hold for prompts, for a note;
/// empty if it says nothing.
std::string lengths_note(const Tokenizer& tokenizer);

/// Ids that end the answer. Throws Error(kUsage) for a name that the tokenizer does not have.
std::vector<std::int64_t> stop_ids(const PromptOptions& options, const Tokenizer* tokenizer);

}  // namespace sinter::tools
