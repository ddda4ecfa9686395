// SPDX-License-Identifier: Apache-2.0
// A model of an encoder and a decoder over HTTP: a tiny Marian, against transformers.
#include <fstream>
#include <thread>

#include "tests/support/paths.h"
#include "tests/tools/serve/serve_fixture.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

class ServeTranslationTest : public ServeTest {
 protected:
  void SetUp() override {
    for (const char* part : {"encoder", "decoder"}) {
      const auto compiled =
          sinter({"compile", source_dir() + "/models/tiny/marian_" + part + ".onnx", "-o",
                  path(part), "--target=cpu"});
      ASSERT_EQ(compiled.code, 0) << compiled.err;
    }
    model_.plan = path("decoder");
    model_.encoder = path("encoder");
    model_.start = "95";
    model_.sequences = 4;
    model_.session.threads = 1;
  }
  static json golden() {
    std::ifstream file(source_dir() + "/tests/tools/goldens/speech.json");
    return json::parse(file)["marian"];
  }
  std::string refused(const tools::ServedModelOptions& options) {
    try {
      models_.load("other", options);
    } catch (const Error& error) {
      return error.what();
    }
    return "it was taken";
  }
};

TEST_F(ServeTranslationTest, ManyTextsAreThoseOfTransformers) {
  begin();
  const json cases = golden();
  std::vector<std::thread> threads;
  for (int copy = 0; copy < 3; ++copy)
    for (const json& each : cases)
      threads.emplace_back([&] {
        const json answer = post({{"prompt", each["source"]},
                                  {"max_tokens", each["tokens"].size()},
                                  {"temperature", 0}});
        EXPECT_EQ(answer["choices"][0]["token_ids"], each["tokens"]);
        EXPECT_EQ(answer["usage"]["prompt_tokens"], each["source"].size());
      });
  for (std::thread& thread : threads) thread.join();
  // Several prompts, several texts of each.
  const json both = post({{"prompt", {cases[0]["source"], cases[1]["source"]}},
                          {"max_tokens", 5},
                          {"n", 2},
                          {"temperature", 0}});
  ASSERT_EQ(both["choices"].size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(both["choices"][i]["token_ids"][4], cases[i / 2]["tokens"][4]);
}

TEST_F(ServeTranslationTest, TheFirstTokenMayBeThatOfTheModelsAuthors) {
  model_.start.clear();
  EXPECT_THAT(refused(model_), HasSubstr("--start TOKEN"));
  std::ofstream(path("generation_config.json")) << R"({"decoder_start_token_id": 95})";
  json words = json::object();
  for (int i = 0; i < 96; ++i) words["w" + std::to_string(i)] = i;
  std::ofstream(path("tokenizer.json")) << json{
      {"model", {{"type", "WordLevel"}, {"vocab", words}, {"unk_token", "w0"}}},
      {"pre_tokenizer",
       {{"type", "Whitespace"}}}}.dump();
  model_.tokenizer = path("tokenizer.json");
  begin();
  const json each = golden()[0];
  std::string source;
  for (const int id : each["source"]) source += "w" + std::to_string(id) + " ";
  const json answer = post({{"prompt", source},
                            {"max_tokens", each["tokens"].size()},
                            {"temperature", 0},
                            {"return_token_ids", true}});
  EXPECT_EQ(answer["choices"][0]["token_ids"], each["tokens"]);
}

TEST_F(ServeTranslationTest, WhatCannotBeIsRefusedByName) {
  begin();
  EXPECT_THAT(refusal({{"prompt", std::vector<int>(100000, 1)}}), HasSubstr("the encoder reads"));
  tools::ServedModelOptions options = model_;
  options.start = "none";
  EXPECT_THAT(refused(options), HasSubstr("--start"));
  options = model_;
  options.start = "100000";
  EXPECT_THAT(refused(options), HasSubstr("--start TOKEN"));
  options = model_;
  options.encoder.clear();
  EXPECT_THAT(refused(options), HasSubstr("with --encoder"));
  options.plan = model_.encoder;
  options.encoder = model_.plan;
  EXPECT_THAT(refused(options), HasSubstr("different models"));
}

}  // namespace
}  // namespace sinter::tests
