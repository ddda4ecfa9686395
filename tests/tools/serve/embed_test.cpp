// SPDX-License-Identifier: Apache-2.0
// `sinter embed` over a tiny encoder, as a folder of sentence-transformers.
#include <cmath>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/tiny_tokenizer.h"
#include "tools/serve/add_embed.h"
#include "tools/serve/models/embedding_files.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class EmbedTest : public CliTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(path("model/1_Pooling"));
    std::filesystem::copy_file(source_dir() + "/models/tiny/bert.onnx", path("model/model.onnx"));
    write("model/tokenizer.json", tiny_tokenizer().dump());
    pool("pooling_mode_mean_tokens");
    modules(R"([{"type": "x.Transformer"}, {"type": "x.Pooling", "path": "1_Pooling"},
                {"type": "x.Normalize"}])");
  }
  void pool(const std::string& mode) {
    write("model/1_Pooling/config.json",
          json{{mode, true}, {"word_embedding_dimension", 8}}.dump());
  }
  void modules(const std::string& text) { write("model/modules.json", text); }
  CliResult embed(std::vector<std::string> more) {
    std::vector<std::string> words = {"sinter", "embed", path("model"), "--target=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    constexpr tools::AddVerb kMore[] = {tools::add_embed};
    CliResult result;
    result.code = tools::run_cli(static_cast<int>(arguments.size()), arguments.data(), kMore);
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }
  json vectors(std::vector<std::string> more) {
    more.emplace_back("--json");
    const auto result = embed(std::move(more));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? json::parse(result.out) : json();
  }
  static double length(const json& vector) {
    double square = 0;
    for (const double x : vector) square += x * x;
    return std::sqrt(square);
  }
};

TEST_F(EmbedTest, FilesSayHowVectorsAreMade) {
  const json mean = vectors({"ABC", "D", "ABC"});
  EXPECT_EQ(mean["texts"], 3);
  EXPECT_EQ(mean["embeddings"][0], mean["embeddings"][2]);
  EXPECT_NE(mean["embeddings"][0], mean["embeddings"][1]);
  EXPECT_NEAR(length(mean["embeddings"][0]), 1, 1e-5);
  // A vector does not depend on those beside it, but for rounding.
  const json alone = vectors({"D"});
  for (std::size_t i = 0; i < alone["embeddings"][0].size(); ++i)
    EXPECT_NEAR(alone["embeddings"][0][i], mean["embeddings"][1][i], 1e-5);
  pool("pooling_mode_cls_token");
  EXPECT_NE(vectors({"ABC"})["embeddings"][0], mean["embeddings"][0]);
  EXPECT_EQ(vectors({"ABC", "--pooling=first"}), vectors({"ABC"}));
  modules(R"([{"type": "x.Transformer"}, {"type": "x.Pooling", "path": "1_Pooling"}])");
  const json raw = vectors({"ABC"});
  EXPECT_EQ(raw["normalized"], false);
  EXPECT_GT(std::abs(length(raw["embeddings"][0]) - 1), 1e-3);
}

TEST_F(EmbedTest, LinesOfFilesAreTexts) {
  write("lines", "ABC\nD\n");
  const json found = vectors({"--file", path("lines")});
  EXPECT_EQ(found["embeddings"].size(), 2u);
  const auto written = embed({"--file", path("lines"), "--outputs", path("out.npz")});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out, "");
  EXPECT_TRUE(std::filesystem::exists(path("out.npz")));
  write("model/sentence_bert_config.json", R"({"max_seq_length": 3})");
  EXPECT_EQ(vectors({"ABCDEF"})["cut"], 1);
  EXPECT_EQ(vectors({"ABCDEF"})["embeddings"], vectors({"ABCXYZ"})["embeddings"]);
}

TEST_F(EmbedTest, PromptsStandInFrontOfTexts) {
  write("model/config_sentence_transformers.json", R"({"prompts": {"query": "Q:", "plain": ""}})");
  EXPECT_EQ(vectors({"ABC", "--prompt=query"})["embeddings"], vectors({"Q:ABC"})["embeddings"]);
  EXPECT_EQ(vectors({"ABC", "--prompt=plain"})["embeddings"], vectors({"ABC"})["embeddings"]);
  EXPECT_THAT(embed({"A", "--prompt=none"}).err, HasSubstr("those of config_sentence_transformers"
                                                           ".json are plain, query"));
  write("model/config_sentence_transformers.json",
        R"({"prompts": {"query": "Q:"}, "default_prompt_name": "query"})");
  EXPECT_EQ(vectors({"ABC"})["embeddings"], vectors({"ABC", "--prompt=query"})["embeddings"]);
  // What is not pooled is read all the same.
  write("model/1_Pooling/config.json", R"({"pooling_mode": "lasttoken", "include_prompt": false})");
  EXPECT_EQ(vectors({"ABC", "--pooling=last"}), vectors({"ABC"}));
}

TEST(TextPooling, EachKindIsItsFormula) {
  const std::vector<float> rows = {1, 5, 2, -4, 6, 8};  // three tokens of two numbers
  using tools::Pooling, tools::pooled;
  using Vector = std::vector<float>;
  EXPECT_EQ(pooled(rows, 2, Pooling::kMean), (Vector{3, 3}));
  EXPECT_EQ(pooled(rows, 2, Pooling::kFirst), (Vector{1, 5}));
  EXPECT_EQ(pooled(rows, 2, Pooling::kLast), (Vector{6, 8}));
  EXPECT_EQ(pooled(rows, 2, Pooling::kMax), (Vector{6, 8}));
  EXPECT_EQ(pooled(rows, 2, Pooling::kMeanSqrt, 2), (Vector{6, 8}));
  EXPECT_FLOAT_EQ(pooled(rows, 2, Pooling::kMeanSqrt)[0], 9 / std::sqrt(3.0F));
  EXPECT_FLOAT_EQ(pooled(rows, 2, Pooling::kWeighted)[0], (1 + 2 * 2 + 3 * 6) / 6.0F);
  EXPECT_EQ(pooled(rows, 2, Pooling::kMean, 1), (Vector{4, 2}));
  EXPECT_EQ(pooled(rows, 2, Pooling::kFirst, 1), (Vector{2, -4}));
  EXPECT_EQ(pooled(rows, 2, Pooling::kMax, 3), (Vector{0, 0}));
}

TEST(TextPooling, DenseLayersAreLinear) {
  tools::DenseLayer layer;
  layer.inputs = 2, layer.outputs = 2;
  layer.weights = {1, 2, 3, 4}, layer.bias = {0, -20};
  layer.activation = tools::dense_activation("torch.nn.modules.activation.ReLU");
  const std::vector<float> x = {1, 2};
  EXPECT_EQ(layer.apply(x), (std::vector<float>{5, 0}));
  layer.has_residual = true;
  EXPECT_EQ(layer.apply(x), (std::vector<float>{6, 2}));
  layer.residual = {1, 1, 0, 1};
  EXPECT_EQ(layer.apply(x), (std::vector<float>{8, 2}));
  EXPECT_THROW(layer.apply(std::vector<float>{1}), Error);
  EXPECT_EQ(tools::dense_activation("torch.nn.modules.linear.Identity"), nullptr);
  EXPECT_THROW(tools::dense_activation("Strange"), Error);
}

TEST_F(EmbedTest, BadInputIsRefused) {
  EXPECT_THAT(embed({}).err, HasSubstr("there is no text"));
  EXPECT_THAT(embed({"A", "--file", path("none")}).err, HasSubstr("exclude each other"));
  pool("pooling_mode_strange_tokens");
  EXPECT_THAT(embed({"A"}).err, HasSubstr("pooling_mode_strange_tokens"));
  EXPECT_EQ(embed({"A", "--pooling=mean"}).code, 0);
  modules(R"([{"type": "x.Strange"}])");
  EXPECT_THAT(embed({"A"}).err, HasSubstr("x.Strange"));
  modules(R"([{"type": "x.Dense", "path": "2_Dense"}])");
  EXPECT_THAT(embed({"A"}).err, HasSubstr("2_Dense/config.json' is missing"));
  std::filesystem::create_directories(path("model/2_Dense"));
  write("model/2_Dense/config.json", R"({"activation_function": "x.Strange"})");
  EXPECT_THAT(embed({"A"}).err, HasSubstr("2_Dense/model.safetensors' is missing"));
  modules("{");
  EXPECT_EQ(embed({"A"}).code, 2);
  modules("[]");
  std::filesystem::remove(path("model/tokenizer.json"));
  EXPECT_THAT(embed({"A"}).err, HasSubstr("brings no tokenizer"));
}

}  // namespace
}  // namespace sinter::tests
