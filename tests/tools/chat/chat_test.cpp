// SPDX-License-Identifier: Apache-2.0
// `generate --chat`: each answer is what the whole conversation gives without caches.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/tiny_tokenizer.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ChatTest : public CliTest {
 protected:
  void SetUp() override {
    const auto compiled = sinter({"compile", source_dir() + "/models/tiny/decoder.onnx", "-o",
                                  path("plan"), "--target=cpu", "--serve=block=1"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    std::ofstream(path("tokenizer.json")) << tiny_tokenizer();
    std::ofstream(path("chat.jinja")) << "{% for m in messages %}{% if m.role == 'user' %}u{% else "
                                         "%}a{% endif %}:{{ m.content }};"
                                         "{% endfor %}";
  }
  CliResult chat(const std::string& lines, std::vector<std::string> options = {}) {
    std::istringstream input(lines);
    std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
    std::cin.clear();
    std::vector<std::string> words = {
        "generate",     path("plan"),     "--chat", "--tokenizer", path("tokenizer.json"),
        "--context=64", "--max-tokens=7", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    CliResult result = sinter(words);
    std::cin.rdbuf(before);
    return result;
  }
  /// What the plan gives behind `text` from its beginning.
  json tokens_behind(const std::string& text) {
    const auto result =
        sinter({"generate", path("plan"), "--prompt", text, "--tokenizer", path("tokenizer.json"),
                "--context=64", "--max-tokens=7", "--json", "--no-rates"});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out)["tokens"];
  }
};

TEST_F(ChatTest, AnswersAreThoseOfTheWholeConversation) {
  const auto result =
      chat("hi\n\nand you?\nwhy\n", {"--chat-template", path("chat.jinja"), "--system=be"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json turns = json::parse(result.out)["turns"];
  ASSERT_EQ(turns.size(), 3u);
  std::string text = "a:be;";
  const char* const asked[] = {"hi", "and you?", "why"};
  for (std::size_t i = 0; i < 3; ++i) {
    text += std::string("u:") + asked[i] + ";";
    EXPECT_EQ(turns[i]["tokens"], tokens_behind(text)) << text;
    EXPECT_EQ(turns[i]["prompt_tokens"], text.size());
    text += "a:" + turns[i]["text"].get<std::string>() + ";";
  }
  EXPECT_EQ(turns[0]["cached_tokens"], 0);
  // At least the prompt in front, of which an answer does not begin anew.
  EXPECT_GE(turns[1]["cached_tokens"], turns[0]["prompt_tokens"]);
  EXPECT_GE(turns[2]["cached_tokens"], turns[1]["prompt_tokens"]);
}

TEST_F(ChatTest, WhatItNeedsIsSaid) {
  EXPECT_THAT(chat("hi\n").err, HasSubstr("give --chat-template"));
  const auto full = chat("hi\n", {"--chat-template", path("chat.jinja"), "--context=4"});
  EXPECT_EQ(full.code, 2);
  EXPECT_THAT(full.err, HasSubstr("--context"));
  EXPECT_EQ(chat("", {"--chat-template", path("chat.jinja")}).code, 0);
}

}  // namespace
}  // namespace sinter::tests
