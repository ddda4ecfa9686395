// SPDX-License-Identifier: Apache-2.0
// generation_config.json: what it may say, and what `generate` makes of it.
#include "tools/generate/generation_config.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/tiny_tokenizer.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using tools::GenerationConfig;

TEST(GenerationConfig, IsWhatTheFileSays) {
  const auto config = GenerationConfig::parse(
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 50, "min_p": null,
          "repetition_penalty": 1.05, "eos_token_id": [2, 7], "max_new_tokens": 100,
          "transformers_version": "4.57", "bos_token_id": 1})");
  SamplingParameters sampling;
  config.apply(sampling);
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 50);
  EXPECT_EQ(sampling.min_p, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1.05);
  EXPECT_THAT(config.stop_tokens, ElementsAre(2, 7));
  EXPECT_EQ(config.max_new_tokens, 100);
  EXPECT_TRUE(config.do_sample.value());
  EXPECT_THAT(GenerationConfig::parse(R"({"eos_token_id": 3})").stop_tokens, ElementsAre(3));
  for (const auto& [text, what] :
       {std::pair(R"([])", "no JSON object"), std::pair(R"({"a": )", "is not JSON"),
        std::pair(R"({"temperature": -1})", "'temperature' is -1"),
        std::pair(R"({"top_p": 1.5})", "'top_p' is 1.5"),
        std::pair(R"({"top_k": 2.5})", "'top_k' is 2.5"),
        std::pair(R"({"max_new_tokens": 0})", "'max_new_tokens' is 0"),
        std::pair(R"({"do_sample": 1})", "'do_sample'"),
        std::pair(R"({"eos_token_id": ["</s>"]})", "'eos_token_id'"),
        std::pair(R"({"eos_token_id": -5})", "'eos_token_id'")})
    try {
      GenerationConfig::parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
}

class GenerateDefaultsTest : public CliTest {
 protected:
  void SetUp() override {
    const auto compiled = sinter({"compile", source_dir() + "/models/tiny/decoder.onnx", "-o",
                                  path("plan"), "--target=cpu"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    write("tokenizer.json", tiny_tokenizer().dump());
  }
  json tokens(std::vector<std::string> more = {}, const std::string& prompt = "ab") {
    std::vector<std::string> words = {
        "generate", path("plan"), "--prompt",     prompt, "--tokenizer", path("tokenizer.json"),
        "--json",   "--no-rates", "--max-tokens", "20"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    notes_ = result.err;
    return result.code == 0 ? json::parse(result.out)["tokens"] : json();
  }
  std::string notes_;
};

TEST_F(GenerateDefaultsTest, DrawsAreThoseOfTheModelsAuthorsUnlessTheUserSaysOtherwise) {
  const json greedy = tokens();
  const json drawn = tokens({"--temperature", "0.8", "--top-k", "7"});
  const auto config = [&](const json& content) { write("generation_config.json", content.dump()); };
  config({{"do_sample", true}, {"temperature", 0.8}, {"top_k", 7}});
  EXPECT_EQ(tokens(), drawn);
  EXPECT_THAT(notes_, HasSubstr("generation_config.json"));
  EXPECT_EQ(tokens({"--greedy"}), greedy);
  EXPECT_EQ(tokens({"--no-generation-config"}), greedy);
  EXPECT_EQ(tokens({"--temperature", "0"}), greedy);
  EXPECT_NE(tokens({"--seed", "4"}), drawn);
  config({{"temperature", 0.8}});
  EXPECT_EQ(tokens(), greedy) << "nothing says that tokens are drawn";
  // What ends a text.
  config({{"eos_token_id", greedy[3]}});
  const json ended = tokens();
  EXPECT_LE(ended.size(), 4U);
  EXPECT_EQ(ended.back(), greedy[3]);
  // A penalty is for tokens of the prompt, too.
  config({{"repetition_penalty", 1000.0}});
  const json penalized = tokens();
  EXPECT_EQ(std::set<int>(penalized.begin(), penalized.end()).size(), penalized.size());
  EXPECT_EQ(std::ranges::count(penalized, json(64)) + std::ranges::count(penalized, json(65)), 0);
  EXPECT_EQ(tokens({"--greedy"}), greedy);
  write("generation_config.json", "{");
  const auto refused =
      sinter({"generate", path("plan"), "--prompt", "a", "--tokenizer", path("tokenizer.json")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--no-generation-config"));
}

}  // namespace
}  // namespace sinter::tests
