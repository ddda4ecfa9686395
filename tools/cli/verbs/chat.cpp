// SPDX-License-Identifier: Apache-2.0
// A conversation: `generate --chat`.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include "runtime/format_error.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/generate_text.h"
#include "tools/generate/chat_template.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

ChatTemplate template_of(const GenerateArguments& options) {
  if (!options.chat_template.empty()) return ChatTemplate::load(options.chat_template);
  const auto beside =
      std::filesystem::path(options.tokenizer).replace_filename("tokenizer_config.json").string();
  if (!std::filesystem::exists(beside))
    throw usage_error("--chat needs a chat template: there is no '{}', give --chat-template",
                      beside);
  return ChatTemplate::load(beside);
}

/// A conversation's messages and its tokens in the caches.
class Conversation {
 public:
  Conversation(const GenerateArguments& options, TextGenerator& generator,
               const Tokenizer& tokenizer)
      : generator_(generator), tokenizer_(tokenizer), template_(template_of(options)) {
    if (!options.system.empty()) say("system", options.system);
  }

  /// Generates and streams the answer to `text`. Tokens in the caches are not computed again.
  ordered_json answer(const std::string& text, const Console& console) {
    say("user", text);
    const auto ids = tokenizer_.encode(template_.apply(messages_, nullptr), false);
    if (std::ssize(ids) >= generator_.capacity())
      throw usage_error(
          "the conversation has {} tokens, and the caches hold {}: start another, or give a larger "
          "--context",
          ids.size(), generator_.capacity());
    Stream stream(console, &tokenizer_);
    const Interrupts interrupts;
    const Generated result = generator_.generate(ids, stream);
    const std::string said = tokenizer_.decode(result.tokens, true);
    say("assistant", said);
    return {{"prompt_tokens", ids.size()},     {"cached_tokens", result.cached_tokens},
            {"tokens", result.tokens},         {"text", said},
            {"stopped_by", result.stopped_by}, {"first_token_us", result.first_us}};
  }

 private:
  void say(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }

  TextGenerator& generator_;
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  ordered_json messages_ = ordered_json::array();
};

}  // namespace

int run_chat(const GenerateArguments& options, TextGenerator& generator, const Tokenizer& tokenizer,
             const Console& console) {
  Conversation conversation(options, generator, tokenizer);
  const bool asks = isatty(STDIN_FILENO) != 0 && !console.json && !console.quiet;
  ordered_json turns = ordered_json::array();
  for (std::string line;
       (asks ? std::cerr << "> " << std::flush : std::cerr), std::getline(std::cin, line);) {
    if (line.empty()) continue;
    turns.push_back(conversation.answer(line, console));
    const auto& turn = turns.back();
    console.note(fmt::format("{} tokens, {} of the prompt's {} in the caches; first after {}",
                             turn["tokens"].size(), turn["cached_tokens"].get<std::uint64_t>(),
                             turn["prompt_tokens"].get<std::size_t>(),
                             format_time(turn["first_token_us"].get<double>())));
  }
  console.result({{"plan", options.plan}, {"turns", std::move(turns)}});
  return 0;
}

}  // namespace sinter::tools
