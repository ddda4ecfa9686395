// SPDX-License-Identifier: Apache-2.0
// `generate --requests`: what the server takes, a line each.
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/tiny_tokenizer.h"
#include "tools/serve/add_serve.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RequestsFileTest : public CliTest {
 protected:
  void SetUp() override {
    const auto compiled = run({"compile", source_dir() + "/models/tiny/decoder.onnx", "-o",
                               path("plan"), "--target=cpu", "--serve=block=4,sequences=8"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    write("tokenizer.json", tiny_tokenizer().dump());
  }
  CliResult run(std::vector<std::string> words) {
    words.insert(words.begin(), "sinter");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    constexpr tools::AddVerb kMore[] = {[](tools::Cli& cli) { add_serve(cli, nullptr); }};
    CliResult result;
    result.code = tools::run_cli(static_cast<int>(arguments.size()), arguments.data(), kMore);
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }
  CliResult requests(const std::vector<json>& lines, std::vector<std::string> more = {}) {
    std::string text;
    for (const json& line : lines) text += line.dump() + "\n";
    std::vector<std::string> words = {"generate",           path("plan"), "--requests",
                                      write("lines", text), "--no-rates", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  json answers(const std::vector<json>& lines, const std::vector<std::string>& more = {}) {
    const auto result = requests(lines, more);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? json::parse(result.out)["answers"] : json();
  }
};

TEST_F(RequestsFileTest, LinesDrawForThemselves) {
  const json line = {{"ids", {1}}, {"max_tokens", 12}, {"temperature", 1}};
  const auto texts = [&](const std::vector<std::string>& more) {
    std::vector<json> tokens;
    for (const json& answer : answers(std::vector<json>(8, line), more))
      tokens.push_back(answer["tokens"]);
    return tokens;
  };
  const auto first = texts({}), seeded = texts({"--seed", "5"});
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 8U);
  EXPECT_EQ(std::set(seeded.begin(), seeded.end()).size(), 8U);
  EXPECT_EQ(seeded, texts({"--seed", "5"}));
  EXPECT_NE(seeded, first);
  json many = line;
  many["n"] = 3;
  many["prompt"] = {{1}, {2}};
  many.erase("ids");
  const json six = answers({many, line});
  ASSERT_EQ(six.size(), 7U);
  EXPECT_EQ(six[5]["choice"], 5);
  EXPECT_FALSE(six[6].contains("choice"));
}

TEST_F(RequestsFileTest, FieldsAreThoseOfTheServer) {
  const json base = {{"ids", {1}}, {"max_tokens", 6}, {"temperature", 1}, {"seed", 4}};
  const auto with = [&](const json& more) {
    json line = base;
    line.update(more);
    return line;
  };
  const json found = answers({base,
                              with({{"logit_bias", {{"3", 100}}}}),
                              with({{"min_p", 1}}),
                              {{"ids", {1}}, {"max_tokens", 6}},
                              with({{"logprobs", 2}, {"frequency_penalty", 0.5}}),
                              with({{"user", "me"}, {"stop", nullptr}})});
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[1]["tokens"], json(std::vector<int>(6, 3)));
  EXPECT_EQ(found[2]["tokens"], found[3]["tokens"]) << "the likeliest, as greedy ones are";
  EXPECT_EQ(found[4]["logprobs"]["token_logprobs"].size(), 6U);
  EXPECT_EQ(found[5]["tokens"], found[0]["tokens"]);
  const auto refusal = [&](const json& line) {
    const auto result = requests({base, line});
    EXPECT_EQ(result.code, 2);
    return result.err + result.out;
  };
  EXPECT_THAT(refusal(with({{"temprature", 1}})), HasSubstr("'temprature' is not known"));
  EXPECT_THAT(refusal(with({{"temprature", 1}})), HasSubstr("line 2"));
  EXPECT_THAT(refusal(with({{"top_p", 2}})), HasSubstr("'top_p' is 2"));
  EXPECT_THAT(refusal(with({{"stream", true}})), HasSubstr("'stream' is not supported"));
  EXPECT_THAT(refusal(with({{"prompt", {1}}})), HasSubstr("'ids' contradicts"));
  EXPECT_THAT(refusal(with({{"arrival_ms", -1}})), HasSubstr("'arrival_ms'"));
  std::filesystem::remove(path("tokenizer.json"));
  EXPECT_THAT(refusal({{"prompt", "text"}}), HasSubstr("without a tokenizer"));
  EXPECT_THAT(refusal({{"ids", {9999}}}), HasSubstr("9999"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("no JSON object"));
}

TEST_F(RequestsFileTest, ConversationsAndConstraintsAreLinesToo) {
  write("tokenizer_config.json", R"({"chat_template": "{{ messages[0].content }}"})");
  const std::vector<std::string> words = {"--tokenizer", path("tokenizer.json")};
  const json found = answers({{{"messages", {{{"role", "user"}, {"content", "ab"}}}},
                               {"max_tokens", 5},
                               {"ignore_eos", true}},
                              {{"prompt", "ab"}, {"max_tokens", 5}, {"ignore_eos", true}},
                              {{"prompt", "ab"}, {"guided_regex", "[xyz]{3}!"}}},
                             words);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0]["text"], found[1]["text"]);
  EXPECT_THAT(found[2]["text"].get<std::string>(), testing::MatchesRegex("[xyz][xyz][xyz]!"));
  auto constrained = words;
  constrained.insert(constrained.end(), {"--choice", "yes", "--choice", "no"});
  const std::string said = answers({{{"prompt", "ab"}}}, constrained)[0]["text"];
  EXPECT_TRUE(said == "yes" || said == "no") << said;
  // Defaults of the model's authors.
  write("generation_config.json", R"({"do_sample": true, "eos_token_id": 3})");
  const json forced = {{"prompt", "ab"}, {"logit_bias", {{"3", 100}}}};
  EXPECT_EQ(answers({forced}, words)[0]["tokens"], json({3}));
  auto refused = words;
  refused.insert(refused.end(), {"--no-generation-config", "--max-tokens", "9"});
  EXPECT_GT(answers({forced}, refused)[0]["tokens"].size(), 1U);
}

}  // namespace
}  // namespace sinter::tests
