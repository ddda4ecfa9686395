// SPDX-License-Identifier: Apache-2.0
// Fields of requests that clients send: what they do, what has no effect, what is refused.
#include <fstream>
#include <set>

#include "tests/tools/serve/text_fixture.h"
#include "tools/serve/openai/logprobs.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

TEST_F(ServeTextTest, WhatIsOptionalMayBeNull) {
  begin();
  json body = {{"prompt", "ab"}, {"max_tokens", 4}, {"seed", 1}};
  const json plain = post(body)["choices"];
  for (const char* name :
       {"temperature",       "top_p",        "n",      "stream",         "stop",
        "logprobs",          "echo",         "suffix", "best_of",        "presence_penalty",
        "frequency_penalty", "logit_bias",   "user",   "stream_options", "top_k",
        "min_tokens",        "service_tier", "store",  "metadata",       "response_format"})
    body[name] = nullptr;
  EXPECT_EQ(post(body)["choices"], plain);
  json message = {{"max_tokens", 4}, {"seed", 1}};
  const json said = chat(message)["choices"];
  for (const char* name :
       {"max_completion_tokens", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort",
        "response_format", "top_logprobs", "logprobs", "modalities", "audio", "store", "verbosity"})
    if (std::string_view(name) != "audio") message[name] = nullptr;
  EXPECT_EQ(chat(message)["choices"], said);
}

TEST_F(ServeTextTest, HintsHaveNoEffectAndTheRestIsRefusedByName) {
  begin();
  const json plain = chat({{"max_tokens", 4}, {"seed", 1}})["choices"];
  EXPECT_EQ(chat({{"max_tokens", 4},
                  {"seed", 1},
                  {"service_tier", "auto"},
                  {"store", false},
                  {"reasoning_effort", "low"},
                  {"verbosity", "medium"},
                  {"user", "me"},
                  {"metadata", {{"a", "b"}}},
                  {"safety_identifier", "x"},
                  {"prompt_cache_key", "y"},
                  {"modalities", {"text"}},
                  {"tools", json::array()},
                  {"parallel_tool_calls", false},
                  {"stream_options",
                   {{"include_usage", false}, {"include_obfuscation", true}}}})["choices"],
            plain);
  EXPECT_THAT(refusal({{"prompt", "a"}, {"store", true}}), HasSubstr("'store' is not supported"));
  EXPECT_THAT(refusal({{"prompt", "a"}, {"service_tier", "flex"}}), HasSubstr("'priority'"));
  EXPECT_THAT(refusal({{"prompt", "a"}, {"presence_penalty", 3}}),
              HasSubstr("'presence_penalty' is 3"));
  EXPECT_THAT(refusal({{"prompt", "a"}, {"min_tokens", 9}, {"max_tokens", 3}}),
              HasSubstr("min tokens 9"));
  EXPECT_THAT(refusal({{"prompt", "a"}, {"reasoning_effort", "huge"}}),
              HasSubstr("'reasoning_effort' is none of"));
  EXPECT_THAT(refusal({{"prompt", "a"}, {"best_of", 3}}), HasSubstr("'best_of'"));
  post({{"prompt", "a"}, {"best_of", 1}, {"max_tokens", 1}});
}

TEST_F(ServeTextTest, PenaltiesOfTheTextMakeItsTokensDiffer) {
  begin();
  const auto distinct = [&](const json& more) {
    json body = {{"prompt", "ab"},
                 {"max_tokens", 30},
                 {"temperature", 0},
                 {"ignore_eos", true},
                 {"return_token_ids", true}};
    body.update(more);
    const json ids = post(body)["choices"][0]["token_ids"];
    return std::set<int>(ids.begin(), ids.end()).size();
  };
  const std::size_t plain = distinct(json::object());
  EXPECT_LT(plain, 30U);
  EXPECT_GT(distinct({{"presence_penalty", 2}}), plain);
  EXPECT_GT(distinct({{"frequency_penalty", 2}}), plain);
}

TEST_F(ServeTextTest, TextsHaveTheLeastTokens) {
  begin();
  // The end is the likeliest token everywhere.
  json body = {{"prompt", "ab"},
               {"max_tokens", 12},
               {"temperature", 0},
               {"min_tokens", 7},
               {"logit_bias", {{"95", 100}}},
               {"return_token_ids", true}};
  const json choice = post(body)["choices"][0];
  EXPECT_EQ(choice["token_ids"].size(), 8U);
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["text"].get<std::string>().size(), 7U);
}

TEST_F(ServeTextTest, EachTextDrawsForItself) {
  begin();
  const auto texts = [&](const json& more) {
    json body = {{"prompt", json(std::vector<std::string>(8, "ab"))},
                 {"max_tokens", 12},
                 {"temperature", 1},
                 {"ignore_eos", true},
                 {"n", 2}};
    body.update(more);
    std::vector<std::string> result;
    const json answer = post(body);
    for (const json& choice : answer["choices"]) result.push_back(choice["text"]);
    return result;
  };
  const auto free = texts(json::object());
  EXPECT_EQ(std::set(free.begin(), free.end()).size(), 16U);
  EXPECT_NE(free, texts(json::object()));
  const auto seeded = texts({{"seed", 7}});
  EXPECT_EQ(std::set(seeded.begin(), seeded.end()).size(), 16U);
  EXPECT_EQ(seeded, texts({{"seed", 7}}));
  // The first prompt draws as it does alone.
  const auto alone = texts({{"seed", 7}, {"prompt", "ab"}});
  EXPECT_EQ(alone, std::vector(seeded.begin(), seeded.begin() + 2));
}

TEST_F(ServeTextTest, LogprobsHaveWhatWasDrawnAndNumbers) {
  begin();
  const json told = post({{"prompt", "ab"},
                          {"max_tokens", 20},
                          {"temperature", 2},
                          {"seed", 3},
                          {"logprobs", 1},
                          {"ignore_eos", true}})["choices"][0]["logprobs"];
  bool differs = false;
  for (std::size_t i = 0; i < told["tokens"].size(); ++i) {
    const std::string token = told["tokens"][i];
    ASSERT_TRUE(told["top_logprobs"][i].contains(token)) << told["top_logprobs"][i];
    EXPECT_EQ(told["top_logprobs"][i][token], told["token_logprobs"][i]);
    differs = differs || told["top_logprobs"][i].size() == 2;
  }
  EXPECT_TRUE(differs) << "no draw was beside the likeliest token";
  const json message = chat({{"max_tokens", 20},
                             {"temperature", 2},
                             {"seed", 3},
                             {"logprobs", true},
                             {"top_logprobs", 1},
                             {"ignore_eos", true}})["choices"][0];
  for (const json& one : message["logprobs"]["content"]) {
    const auto is_it = [&](const json& top) { return top["token"] == one["token"]; };
    EXPECT_TRUE(std::ranges::any_of(one["top_logprobs"], is_it)) << one;
  }
}

/// Bytes are tokens: characters of several bytes come in parts.
TEST_F(ServeTextTest, OffsetsAreCharacters) {
  json tokenizer = tiny_tokenizer();
  // The bytes of "\u00e9" and one that begins many characters, as a byte-level vocabulary names
  // them; two tokens are spelled alike.
  auto& vocabulary = tokenizer["model"]["vocab"];
  for (const char* name : {"!", "\"", "#"}) vocabulary.erase(name);
  vocabulary["\u00c3"] = 0, vocabulary["\u00a9"] = 1, vocabulary["\u00e2"] = 2;
  write("tokenizer.json", tokenizer.dump());
  begin();
  const json choice = post({{"prompt", "ab"},
                            {"max_tokens", 12},
                            {"temperature", 0},
                            {"logprobs", 20},
                            {"structured_outputs", {{"choice", {"x\u00e9ab"}}}}})["choices"][0];
  EXPECT_EQ(choice["text"], "x\u00e9ab");
  EXPECT_EQ(choice["logprobs"]["tokens"], json({"x", "bytes:\\xc3", "bytes:\\xa9", "a", "b"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], json({0, 1, 1, 2, 3}));
  for (const json& top : choice["logprobs"]["top_logprobs"]) EXPECT_GE(top.size(), 20U);
}

TEST_F(ServeTextTest, TokensSpelledAlikeKeepEntriesOfTheirOwn) {
  begin();
  const auto model = models_.find("tiny");
  tools::LogprobWriter writer(*model);
  GenerationOutput output;
  output.tokens = {64};
  const float never = -std::numeric_limits<float>::infinity();
  output.logprobs = {{-0.5F, {{64, -0.5F}, {65, never}}}};
  auto told = writer.of_text(output);
  EXPECT_EQ(told["top_logprobs"][0].dump(), R"({"a":-0.5,"b":-9999.0})");
  output.logprobs = {{-0.5F, {{65, -1.0F}, {65, never}}}};
  told = writer.of_text(output);
  EXPECT_EQ(told["top_logprobs"][0].dump(), R"({"b":-1.0,"token_id:65":-9999.0,"a":-0.5})");
  EXPECT_EQ(told["text_offset"][0], 1);
}

TEST_F(ServeTextTest, DefaultsAreThoseOfTheModelsAuthors) {
  write("generation_config.json",
        json{{"temperature", 0.0}, {"eos_token_id", {64, 66}}, {"max_new_tokens", 9}}.dump());
  begin();
  const json body = {{"prompt", "ab"}, {"max_tokens", 12}, {"return_token_ids", true}};
  const json first = post(body);
  EXPECT_EQ(first["choices"], post(body)["choices"]) << "it is greedy";
  json forced = body;
  forced["logit_bias"] = {{"66", 100}};
  EXPECT_EQ(post(forced)["choices"][0]["token_ids"], json({66}));
  EXPECT_EQ(post(forced)["choices"][0]["finish_reason"], "stop");
  json drawn = body;
  drawn["temperature"] = 1;
  EXPECT_NE(post(drawn)["choices"], post(drawn)["choices"]);
  EXPECT_LE(chat({{"ignore_eos", true}})["usage"]["completion_tokens"], 9);
  end();
  model_.generation_config = false;
  begin();
  EXPECT_EQ(post(forced)["choices"][0]["token_ids"].size(), 12U);
  write("generation_config.json", R"({"top_p": "much"})");
  model_.generation_config = true;
  try {
    models_.load("other", model_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'top_p' is \"much\""));
    EXPECT_THAT(error.what(), HasSubstr("--no-generation-config"));
  }
}

TEST_F(ServeTextTest, TextsAreTokensAndTokensTexts) {
  begin();
  const json tokens = ask_json("/tokenize", {{"prompt", "ab c"}, {"return_token_strs", true}});
  EXPECT_EQ(tokens["count"], 4);
  EXPECT_EQ(tokens["tokens"], json({64, 65, 94, 66}));
  EXPECT_EQ(tokens["token_strs"], json({"a", "b", " ", "c"}));
  EXPECT_EQ(tokens["max_model_len"], 64);
  EXPECT_EQ(ask_json("/detokenize", {{"tokens", tokens["tokens"]}})["prompt"], "ab c");
  const json talk = ask_json(
      "/tokenize", {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}});
  EXPECT_EQ(ask_json("/detokenize", {{"tokens", talk["tokens"]}})["prompt"], "user:a;");
  EXPECT_THAT(refusal_at("/tokenize", {{"text", "a"}}), HasSubstr("'prompt' is no text"));
  EXPECT_THAT(refusal_at("/tokenize", {{"prompt", "a"}, {"texts", 1}}), HasSubstr("'texts'"));
  EXPECT_THAT(refusal_at("/detokenize", {{"tokens", {-1}}}), HasSubstr("-1"));
}

}  // namespace
}  // namespace sinter::tests
