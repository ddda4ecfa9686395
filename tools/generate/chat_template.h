// SPDX-License-Identifier: Apache-2.0
// Conversations as the text that a chat model was trained on: Jinja templates of tokenizers.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sinter::tools {

/// A template as Hugging Face's `apply_chat_template` renders it, by minja: blocks are trimmed, and
/// `messages`, `tools`, `add_generation_prompt`, `bos_token`, `eos_token`, `raise_exception` and
/// `strftime_now` are there.
class ChatTemplate {
 public:
  /// `path`: tokenizer_config.json with a `chat_template`, or a file of the template's text, in
  /// which bos_token and eos_token are then empty. Throws Error(kUsage) if it cannot be read, has
  /// none or is no template.
  static ChatTemplate load(const std::string& path);
  /// The template that lies beside a tokenizer.json: chat_template.jinja, chat_template.json, or
  /// that of tokenizer_config.json, with the latter's bos_token and eos_token (or those of
  /// special_tokens_map.json); nothing if there is none. Throws as load().
  static std::optional<ChatTemplate> beside(const std::string& tokenizer);
  static ChatTemplate parse(const std::string& text, std::string bos_token, std::string eos_token);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// In a sandbox that was started before (runtime/sandbox) templates are parsed and applied under
  /// limits of time and memory, and their crashes are refusals.
  ///
  /// The text of `messages` ({"role", "content", ..} each) with `tools` (null: none), and, if
  /// `asks`, what an answer begins behind. It has all special tokens, so that it is encoded without
  /// more. Throws Error(kUsage) with what the template says of them. From any thread.
  std::string apply(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                    bool asks = true) const;

  /// As it was given.
  const std::string& text() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace sinter::tools
