// SPDX-License-Identifier: Apache-2.0
// `sinter embed` over a tiny encoder, as a folder of sentence-transformers.
#include <cmath>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

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

TEST_F(EmbedTest, BadInputIsRefused) {
  EXPECT_THAT(embed({}).err, HasSubstr("there is no text"));
  EXPECT_THAT(embed({"A", "--file", path("none")}).err, HasSubstr("exclude each other"));
  pool("pooling_mode_max_tokens");
  EXPECT_THAT(embed({"A"}).err, HasSubstr("pooling_mode_max_tokens"));
  EXPECT_EQ(embed({"A", "--pooling=mean"}).code, 0);
  modules(R"([{"type": "x.Dense"}])");
  EXPECT_THAT(embed({"A"}).err, HasSubstr("x.Dense"));
  modules("{");
  EXPECT_EQ(embed({"A"}).code, 2);
  modules("[]");
  std::filesystem::remove(path("model/tokenizer.json"));
  EXPECT_THAT(embed({"A"}).err, HasSubstr("brings no tokenizer"));
}

}  // namespace
}  // namespace sinter::tests
