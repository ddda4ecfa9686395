// SPDX-License-Identifier: Apache-2.0
// Tokenizers of GGUF files beside the libraries that made them (goldens/make_gguf_tokenizers.py).
#include "tools/tokenizer/gguf_tokenizer.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/generate/chat_template.h"
#include "tools/generate/generation_config.h"
#include "tools/generate/gguf_texts.h"
#include "tools/tokenizer/tokenizer.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string from_hexadecimal(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

const json& cases() {
  static const json all = [] {
    std::ifstream file(source_dir() + "/tests/tools/goldens/gguf_tokenizers.json");
    return json::parse(file);
  }();
  return all;
}
std::string bytes_of(const std::string& name) {
  for (const json& one : cases())
    if (one["name"] == name) return from_hexadecimal(one["gguf"]);
  throw std::runtime_error(name);
}
std::shared_ptr<const frontend::GgufFile> parse(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return frontend::GgufFile::parse(std::as_bytes(std::span(*owner)), owner, "a file");
}
/// Another text of the same length.
std::string replaced(std::string bytes, const std::string& from, const std::string& to) {
  const std::size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos);
  return bytes.replace(at, to.size(), to);
}
std::string message_of(const std::string& bytes) {
  try {
    tools::tokenizer_of(*parse(bytes));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GgufTokenizer, IdsAndTextsAreTheLibrarys) {
  ASSERT_EQ(cases().size(), 6u);
  for (const json& one : cases()) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const auto file = parse(from_hexadecimal(one["gguf"]));
    const auto tokenizer = tools::Tokenizer::parse(tools::tokenizer_of(*file).dump());
    for (std::size_t i = 0; i < one["texts"].size(); ++i) {
      const auto text = one["texts"][i].get<std::string>();
      const auto ids = tokenizer.encode(text);
      EXPECT_EQ(json(ids), one["ids"][i]) << text;
      EXPECT_EQ(tokenizer.decode(ids, true), one["decoded"][i].get<std::string>()) << text;
    }
  }
}

TEST(GgufTokenizer, WhatIsUnknownIsRefusedByName) {
  EXPECT_THAT(
      message_of(replaced(bytes_of("qwen2"), "qwen2", "qwen9")),
      testing::AllOf(HasSubstr("'qwen9'"), HasSubstr("llama-bpe"), HasSubstr("--tokenizer")));
  EXPECT_THAT(message_of(replaced(bytes_of("smollm"), "gpt2", "bert")), HasSubstr("'bert'"));
  EXPECT_THAT(message_of(replaced(bytes_of("smollm"), "ggml.model", "ggml.modex")),
              testing::AllOf(HasSubstr("no tokenizer"), HasSubstr("--tokenizer")));
  EXPECT_THAT(message_of(replaced(bytes_of("llama"), "ggml.scores", "ggml.scorex")),
              HasSubstr("'tokenizer.ggml.scores' is missing"));
  EXPECT_THAT(message_of(replaced(bytes_of("llama"), "ggml.tokens", "ggml.tokenx")),
              HasSubstr("'tokenizer.ggml.tokens' is missing"));
  EXPECT_THAT(message_of(replaced(bytes_of("smollm"), "ggml.merges", "ggml.mergex")),
              HasSubstr("'tokenizer.ggml.merges' is missing"));
}

TEST(GgufTokenizer, DamagedFilesAreRefused) {
  const std::string whole = bytes_of("llama");
  for (std::size_t i = 0; i < whole.size(); i += 7) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (i % 2 == 0 ? 0xff : 0x01));
    try {
      tools::Tokenizer::parse(tools::tokenizer_of(*parse(bytes)).dump());
    } catch (const Error&) {
      // One error.
    }
  }
}

class GgufTextsTest : public CliTest {};

TEST_F(GgufTextsTest, FilesAreThoseOfAFolder) {
  tools::write_texts_of(*parse(bytes_of("smollm")), path(""));
  const auto chat = tools::ChatTemplate::beside(path("tokenizer.json"));
  ASSERT_TRUE(chat.has_value());
  EXPECT_EQ(chat->apply({{{"role", "user"}, {"content", "hi"}}}, nullptr), "hi");
  const auto config = tools::GenerationConfig::beside(path("tokenizer.json"));
  // eos is the token 1, and <|end|> ends turns.
  EXPECT_EQ(config.stop_tokens, (std::vector<TokenId>{1, 0}));
  EXPECT_FALSE(config.do_sample.has_value());
}

}  // namespace
}  // namespace sinter::tests
