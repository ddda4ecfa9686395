// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/prompt.h"

#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <system_error>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

constexpr std::string_view kPlace = "{prompt}";

std::string read_all(std::istream& stream) { return {std::istreambuf_iterator<char>(stream), {}}; }

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string in_template(const std::string& file, const std::string& text) {
  std::string result = files::read_file(file);
  const auto place = result.find(kPlace);
  if (place == std::string::npos)
    throw usage_error("template '{}' has no {} where the prompt goes", file, kPlace);
  return result.replace(place, kPlace.size(), text);
}

}  // namespace

std::vector<std::int64_t> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = ", \t\r\n";
  std::vector<std::int64_t> ids;
  while (true) {
    const auto begin = text.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return ids;
    const auto word = text.substr(begin, text.find_first_of(kBetween, begin) - begin);
    const auto id = number(word);
    if (!id || *id < 0) throw usage_error("'{}' is not a token id", word);
    ids.push_back(*id);
    text.remove_prefix(begin + word.size());
  }
}

std::vector<std::int64_t> prompt_ids(const PromptOptions& options, const Tokenizer* tokenizer) {
  std::vector<std::int64_t> ids;
  if (!options.ids.empty()) {
    std::error_code too_long;  // to be a name
    const bool is_file = std::filesystem::exists(options.ids, too_long);
    ids = parse_ids(is_file ? files::read_file(options.ids) : options.ids);
  } else {
    if (tokenizer == nullptr && !options.text.empty())
      throw usage_error("text needs a tokenizer (--tokenizer tokenizer.json); or give --ids");
    std::string text = options.text == "-" ? read_all(std::cin) : options.text;
    if (!options.template_file.empty()) text = in_template(options.template_file, text);
    if (tokenizer != nullptr) ids = tokenizer->encode(text);
  }
  if (ids.empty()) throw usage_error("the prompt has no tokens");
  return ids;
}

std::string lengths_note(const Tokenizer& tokenizer) {
  if (tokenizer.truncation())
    return fmt::format("the tokenizer cuts texts at {} tokens: prompts are not cut, nor padded",
                       tokenizer.truncation()->tokens);
  return tokenizer.padding() ? "the tokenizer pads texts: prompts are not padded" : "";
}

std::vector<std::int64_t> stop_ids(const PromptOptions& options, const Tokenizer* tokenizer) {
  std::vector<std::int64_t> ids;
  for (const auto& stop : options.stops) {
    auto id = number(stop);
    if (!id && tokenizer != nullptr) id = tokenizer->id_of(stop);
    if (!id)
      throw usage_error("--stop '{}' is neither an id nor a token{}", stop,
                        tokenizer ? "" : " (there is no --tokenizer)");
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace sinter::tools
