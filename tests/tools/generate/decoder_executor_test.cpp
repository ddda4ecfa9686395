// SPDX-License-Identifier: Apache-2.0
// The engine over a decoder plan for the CPU: every request gets the tokens that it gets alone.
#include "tools/generate/decoder_executor.h"

#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/engine.h>
#include <sinter/error.h>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/generate/tiny_decoder.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// The same with logits of all tokens.
onnx::ModelProto decoder_of_all_logits() {
  onnx::ModelProto model;
  std::ifstream file(kTinyDecoder, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file));
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    if (node.name() == "head/Gather") {
      node.set_op_type("Identity");
      node.mutable_input()->DeleteSubrange(1, 1);
      node.clear_attribute();
    } else if (node.name().starts_with("head/RMS")) {
      for (auto& attribute : *node.mutable_attribute())
        if (attribute.name() == "axis") attribute.set_i(-1);
    }
  }
  for (auto& output : *model.mutable_graph()->mutable_output()) {
    if (output.name() != "logits") continue;
    auto* shape = output.mutable_type()->mutable_tensor_type()->mutable_shape();
    const auto vocabulary = shape->dim(1);
    shape->mutable_dim(1)->set_dim_param("sequence");
    *shape->add_dim() = vocabulary;
  }
  return model;
}

class DecoderExecutorTest : public CliTest {
 protected:
  /// The tiny decoder, which gives the logits of the last token.
  std::string compile(const std::vector<std::string>& options = {},
                      const std::string& model = kTinyDecoder) {
    std::vector<std::string> words = {"compile",    model,          "-o",
                                      path("plan"), "--target=cpu", "--serve=off"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return path("plan");
  }
  static std::unique_ptr<tools::DecoderExecutor> executor(const std::string& plan, int sequences) {
    tools::DecoderOptions options;
    options.context = 48;
    return std::make_unique<tools::DecoderExecutor>(Plan::load(plan), options,
                                                    SessionOptions{.threads = 1}, sequences);
  }
  static GenerationTexts run(const std::string& plan, int sequences, const EngineOptions& options,
                             const std::vector<GenerationRequest>& requests) {
    return texts_of(executor(plan, sequences), options, requests);
  }
};

TEST_F(DecoderExecutorTest, GreedyTokensOfManyAreThoseOfNumpy) {
  std::vector<GenerationRequest> requests;
  for (int copy = 0; copy < 4; ++copy)
    for (const json& golden : greedy()) {
      GenerationRequest& request = requests.emplace_back();
      request.prompt = golden["prompt"].get<std::vector<TokenId>>();
      request.sampling.max_tokens = std::ssize(golden["tokens"]);
      request.sampling.samples = copy == 3 ? 2 : 1;
      request.priority = copy;
    }
  EngineOptions drafts;
  drafts.draft_tokens = 3;
  drafts.draft_match_least = 1;
  const auto expect_all = [&](const std::string& plan, const EngineOptions& options) {
    const GenerationTexts texts = run(plan, 3, options, requests);
    EXPECT_EQ(texts.size(), 15U);
    for (const auto& [id, tokens] : texts)
      EXPECT_EQ(json(tokens), greedy()[(id.first - 1) % 3]["tokens"]);
  };
  for (const auto& entries : std::vector<std::vector<std::string>>{
           {}, {"--entry", "prefill:sequence=2..40", "--entry", "decode:sequence=1"}}) {
    expect_all(compile(entries), {});
    expect_all(compile(entries, save(decoder_of_all_logits())), drafts);
  }
}

TEST_F(DecoderExecutorTest, DrawsAreThoseOfGenerate) {
  const std::string plan = compile();
  std::vector<GenerationRequest> requests;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    GenerationRequest& request = requests.emplace_back();
    request.prompt = greedy()[1]["prompt"].get<std::vector<TokenId>>();
    request.sampling.max_tokens = 20;
    request.sampling.temperature = 5;
    request.sampling.top_k = 50;
    request.sampling.seed = seed;
    request.sampling.samples = 2;
  }
  const GenerationTexts texts = run(plan, 4, {}, requests);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::string ids;
    for (const TokenId id : requests[0].prompt)
      ids += (ids.empty() ? "" : ",") + std::to_string(id);
    const auto alone =
        sinter({"generate", plan, "--ids", ids, "--max-tokens", "20", "--json", "--no-rates",
                "--temperature", "5", "--top-k", "50", "--seed", std::to_string(seed)});
    EXPECT_EQ(json(texts.at({seed, 0})), json::parse(alone.out)["tokens"]);
    EXPECT_NE(texts.at({seed, 1}), texts.at({seed, 0}));
  }
}

TEST_F(DecoderExecutorTest, ThePlansLengthsAreTheExecutors) {
  const auto limits = executor(compile(), 3)->limits();
  EXPECT_EQ(limits.vocabulary, 96);
  EXPECT_EQ(limits.max_positions, 48);
  EXPECT_EQ(limits.block_count, 3);
  EXPECT_EQ(limits.max_drafts, 0);
  const std::string all = save(decoder_of_all_logits());
  EXPECT_GT(executor(compile({}, all), 1)->limits().max_drafts, 3);
  EXPECT_EQ(executor(compile({"--dim", "sequence=1"}, all), 1)->limits().max_drafts, 0);
}

TEST_F(DecoderExecutorTest, CachesThatGrowAreOfOneSequence) {
  const std::string plan =
      compile({"--dim", "past=0..40"}, source_dir() + "/models/tiny/llama_ts.onnx");
  try {
    executor(plan, 2);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("caches that grow"));
  }
  // Each text begins anew.
  std::ifstream file(source_dir() + "/tests/tools/goldens/greedy.json");
  const json goldens = json::parse(file)["llama_ts"];
  std::vector<GenerationRequest> requests;
  for (const json& golden : goldens) {
    GenerationRequest& request = requests.emplace_back();
    request.prompt = golden["prompt"].get<std::vector<TokenId>>();
    request.sampling.max_tokens = std::ssize(golden["tokens"]);
  }
  const GenerationTexts texts = run(plan, 1, {}, requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(json(texts.at({i + 1, 0})), goldens[i]["tokens"]);
}

}  // namespace
}  // namespace sinter::tests
