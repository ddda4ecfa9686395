// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/speech_tokens.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/ranges.h>

#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

// Vocabulary size of OpenAI's English-only checkpoints; multilingual ones have more.
constexpr std::int64_t kEnglishVocabulary = 51864;

// Symbols that OpenAI's decoder suppresses, since they are not spoken; and music notes, whose first
// bytes are unique to them.
constexpr std::array<std::string_view, 47> kNotSpoken = {
    "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",  ">",
    "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",  "「",
    "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[", "('",
    "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪"};
constexpr std::array<std::string_view, 7> kNotes = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

std::int64_t require(const Tokenizer& tokenizer, std::string_view name) {
  if (const auto id = tokenizer.id_of(name)) return *id;
  throw usage_error("the tokenizer has no token '{}': it is not that of a Whisper model", name);
}

std::int64_t first_of(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, false);
  if (!ids.empty()) return ids.front();
  throw usage_error("the tokenizer makes no tokens of '{}': it is not that of a Whisper model",
                    text);
}

std::set<std::int64_t> not_spoken(const Tokenizer& tokenizer) {
  std::set<std::int64_t> result;
  // A hyphen or apostrophe within a word is spoken; one before a word is not.
  for (const char* text : {" -", " '"}) result.insert(first_of(tokenizer, text));
  for (const auto text : kNotSpoken)
    for (const char* before : {"", " "}) {
      const auto ids = tokenizer.encode(before + std::string(text), false);
      if (ids.size() == 1) result.insert(ids[0]);
    }
  for (const auto text : kNotes)
    for (const char* before : {"", " "})
      result.insert(first_of(tokenizer, before + std::string(text)));
  return result;
}

}  // namespace

SpeechTokens SpeechTokens::of(const Tokenizer& tokenizer, std::int64_t vocabulary) {
  SpeechTokens result;
  result.end = require(tokenizer, "<|endoftext|>");
  result.start = require(tokenizer, "<|startoftranscript|>");
  result.previous = require(tokenizer, "<|startofprev|>");
  result.no_timestamps = require(tokenizer, "<|notimestamps|>");
  result.translate = require(tokenizer, "<|translate|>");
  result.transcribe = require(tokenizer, "<|transcribe|>");
  const auto older = tokenizer.id_of("<|nocaptions|>");
  result.no_speech = older ? *older : require(tokenizer, "<|nospeech|>");
  result.first_timestamp = result.no_timestamps + 1;
  if (result.first_timestamp >= vocabulary)
    throw usage_error(
        "the model has {} tokens, and none for times, which begin at {}: the tokenizer is another "
        "model's",
        vocabulary, result.first_timestamp);
  const std::int64_t last = std::min(result.translate, result.transcribe);
  if (vocabulary != kEnglishVocabulary)
    for (std::int64_t id = result.start + 1; id < last; ++id) {
      const std::string name = tokenizer.decode({&id, 1}, false);
      if (name.size() > 4 && name.starts_with("<|") && name.ends_with("|>"))
        result.languages.emplace_back(name.substr(2, name.size() - 4), id);
    }
  auto suppressed = not_spoken(tokenizer);
  suppressed.insert({result.start, result.previous, result.no_speech, result.translate,
                     result.transcribe, result.no_timestamps});
  if (const auto language_model = tokenizer.id_of("<|startoflm|>"))
    suppressed.insert(*language_model);
  result.suppressed.assign(suppressed.begin(), suppressed.end());
  result.space = first_of(tokenizer, " ");
  return result;
}

std::int64_t SpeechTokens::language(std::string_view code) const {
  for (const auto& [name, id] : languages)
    if (name == code) return id;
  std::vector<std::string> names;
  for (const auto& each : languages) names.push_back(each.first);
  throw usage_error("there is no language '{}'; there are {}", code, fmt::join(names, ", "));
}

}  // namespace sinter::tools
