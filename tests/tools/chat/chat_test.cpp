// SPDX-License-Identifier: Apache-2.0
// `sinter chat`: each answer is what the whole conversation gives without caches.
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
        "chat",         path("plan"),     "--tokenizer", path("tokenizer.json"),
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

TEST_F(ChatTest, CommandsChangeTheConversation) {
  const auto result =
      chat("hi\n/save " + path("saved.json") + "\n/reset\nwhy\n/load " + path("saved.json") +
               "\nmore\n/reset\n/system be\nso\n/help\n/exit\nno\n",
           {"--chat-template", path("chat.jinja")});
  ASSERT_EQ(result.code, 0) << result.err;
  const json turns = json::parse(result.out)["turns"];
  ASSERT_EQ(turns.size(), 4u);
  const auto said = [&](std::size_t i) { return "a:" + turns[i]["text"].get<std::string>() + ";"; };
  EXPECT_EQ(turns[1]["tokens"], tokens_behind("u:why;"));
  EXPECT_EQ(turns[2]["tokens"], tokens_behind("u:hi;" + said(0) + "u:more;"));
  EXPECT_EQ(turns[3]["tokens"], tokens_behind("a:be;u:so;"));
  const json saved = json::parse(read(path("saved.json")))["messages"];
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0], json({{"role", "user"}, {"content", "hi"}}));
  EXPECT_EQ(saved[1]["content"], turns[0]["text"]);
}

TEST_F(ChatTest, CommandsThatFailAreSaid) {
  const std::vector<std::string> with = {"--chat-template", path("chat.jinja")};
  EXPECT_THAT(chat("/nothing\n", with).err, HasSubstr("no command '/nothing'"));
  EXPECT_THAT(chat("/load\n", with).err, HasSubstr("/load FILE"));
  EXPECT_EQ(chat("/load " + path("none.json") + "\n", with).code, 2);
  write("bad.json", R"([{"role": "user"}])");
  EXPECT_THAT(chat("/load " + path("bad.json") + "\n", with).err, HasSubstr("has no conversation"));
  write("failing.jinja", "{{ raise_exception('only once') }}");
  const auto failing = chat("hi\n", {"--chat-template", path("failing.jinja")});
  EXPECT_EQ(failing.code, 2);
  EXPECT_THAT(failing.err, HasSubstr("only once"));
}

TEST_F(ChatTest, TheModelsFilesAreTaken) {
  std::ofstream(path("tokenizer_config.json"))
      << json{{"chat_template", "x{{ messages[0].content }}"}};
  EXPECT_EQ(chat("hi\n").code, 0);
  // A file of its own comes first.
  write("chat_template.jinja", "{{ raise_exception('mine') }}");
  EXPECT_THAT(chat("hi\n").err, HasSubstr("mine"));
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
