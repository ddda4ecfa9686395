// SPDX-License-Identifier: Apache-2.0
// Cross-encoders over HTTP: /v1/rerank, /v1/score.
#include <cmath>

#include "tests/tools/serve/text_fixture.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

/// A model whose logit is what the second text's letters say: 0.01 for each id.
class ServeRankingTest : public ServeTextTest {
 protected:
  void SetUp() override {
    model_.session.threads = 1;
    model_.tensors.batch_rows = 16;
  }
  /// `columns` labels; the logit of the second one is the sum.
  void serve(std::int64_t columns) {
    onnx::ModelProto model = small_model();
    auto* graph = model.mutable_graph();
    graph->clear_node();
    graph->clear_initializer();
    for (auto* list : {graph->mutable_input(), graph->mutable_output()}) list->Clear();
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
      value(graph->add_input(), name, {"batch", "tokens"});
      graph->mutable_input(graph->input_size() - 1)
          ->mutable_type()
          ->mutable_tensor_type()
          ->set_elem_type(onnx::TensorProto::INT64);
    }
    value(graph->add_output(), "logits", {"batch", std::to_string(columns)});
    node(graph, "Mul", "typed", {"input_ids", "token_type_ids"}, "typed");
    node(graph, "Mul", "masked", {"typed", "attention_mask"}, "masked");
    auto* cast = node(graph, "Cast", "real", {"masked"}, "real")->add_attribute();
    cast->set_name("to");
    cast->set_type(onnx::AttributeProto::INT);
    cast->set_i(onnx::TensorProto::FLOAT);
    auto* axes = graph->add_initializer();
    axes->set_name("axes");
    axes->set_data_type(onnx::TensorProto::INT64);
    axes->add_dims(1);
    axes->add_int64_data(1);
    node(graph, "ReduceSum", "sum", {"real", "axes"}, "sum");
    auto* scale = graph->add_initializer();
    scale->set_name("scale");
    scale->set_data_type(onnx::TensorProto::FLOAT);
    scale->add_dims(1);
    scale->add_dims(columns);
    for (std::int64_t i = 0; i < columns; ++i)
      scale->add_float_data(i == std::min<std::int64_t>(columns - 1, 1) ? 0.01F : 0.0F);
    node(graph, "Mul", "scaled", {"sum", "scale"}, "logits");
    const auto compiled = sinter({"compile", save(model), "-o", path("plan"), "--target=cpu"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    model_.plan = path("plan");
    json tokenizer = tiny_tokenizer();
    model_.tokenizer = write("tokenizer.json", tokenizer.dump());
    begin();
  }
  static double expected(const std::string& second) {
    double sum = 0;
    for (const char c : second) sum += c == ' ' ? 94 : c - '!';
    return 1 / (1 + std::exp(-0.01 * sum));
  }
};

TEST_F(ServeRankingTest, DocumentsComeInTheOrderOfTheirRelevance) {
  serve(1);
  const std::vector<std::string> documents = {"b", "!!", "zzz", "a b"};
  const json all =
      ask_json("/v1/rerank", {{"model", "tiny"}, {"query", "what"}, {"documents", documents}});
  ASSERT_EQ(all["results"].size(), 4U);
  std::vector<std::size_t> order;
  for (const json& one : all["results"]) {
    order.push_back(one["index"]);
    EXPECT_EQ(one["document"]["text"], documents[order.back()]);
    EXPECT_NEAR(one["relevance_score"], expected(documents[order.back()]), 1e-6);
  }
  EXPECT_EQ(order, (std::vector<std::size_t>{2, 3, 0, 1}));
  EXPECT_EQ(all["usage"]["total_tokens"], 4 * 4 + 1 + 2 + 3 + 3);
  const json two = ask_json("/rerank", {{"query", {{"text", "what"}}},
                                        {"documents", {{{"text", "b"}}, "zzz", "c"}},
                                        {"top_n", 2},
                                        {"return_documents", false}});
  ASSERT_EQ(two["results"].size(), 2U);
  EXPECT_EQ(two["results"][0]["index"], 1);
  EXPECT_FALSE(two["results"][0].contains("document"));
}

TEST_F(ServeRankingTest, PairsHaveScores) {
  serve(2);
  const json many = ask_json("/v1/score", {{"text_1", "what"}, {"text_2", {"b", "zzz"}}});
  ASSERT_EQ(many["data"].size(), 2U);
  EXPECT_NEAR(many["data"][0]["score"], expected("b"), 1e-6) << "the share of the second label";
  EXPECT_NEAR(many["data"][1]["score"], expected("zzz"), 1e-6);
  const json each =
      ask_json("/score", {{"text_1", {"x", "y"}}, {"text_2", {"b", "zzz"}}, {"label", 0}});
  EXPECT_NEAR(each["data"][1]["score"], 1 - expected("zzz"), 1e-6);
  EXPECT_THAT(refusal_at("/v1/score", {{"text_1", {"x", "y"}}, {"text_2", "b"}}),
              HasSubstr("'text_1' has 2 texts"));
  EXPECT_THAT(refusal_at("/v1/score", {{"text_1", "x"}, {"text_2", "b"}, {"label", 2}}),
              HasSubstr("'label' is 2"));
  EXPECT_THAT(refusal_at("/v1/rerank", {{"query", "x"}}), HasSubstr("'documents' is missing"));
  EXPECT_THAT(refusal_at("/v1/rerank", {{"query", "x"}, {"documents", {1}}}),
              HasSubstr("'documents' has one that is no text"));
  EXPECT_THAT(refusal_at("/v1/rerank", {{"query", "x"}, {"documents", {"a"}}, {"rank", 1}}),
              HasSubstr("'rank' is not known"));
  // 1 MB of request, of which each document would have the query read again.
  const json documents(100, "a");
  EXPECT_THAT(
      refusal_at("/v1/rerank", {{"query", std::string(1 << 20, 'x')}, {"documents", documents}}),
      HasSubstr("'documents' makes pairs of 104857700 bytes in all: 67108864 at most"));
  EXPECT_THAT(
      refusal_at("/v1/score", {{"text_1", std::string(1 << 20, 'x')}, {"text_2", documents}}),
      HasSubstr("'text_2' makes pairs of 104857700 bytes"));
}

TEST_F(ServeRankingTest, OfManyLabelsTheClientSaysWhich) {
  serve(3);
  EXPECT_THAT(refusal_at("/v1/score", {{"text_1", "x"}, {"text_2", "b"}}),
              HasSubstr("'label' is missing"));
  ask("/v1/score", {{"text_1", "x"}, {"text_2", "b"}, {"label", 1}});
}

TEST_F(ServeRankingTest, OthersAreNoCrossEncoders) {
  ServeTextTest::SetUp();
  begin();
  EXPECT_THAT(refusal_at("/v1/rerank", {{"query", "x"}, {"documents", {"a"}}}),
              HasSubstr("is no cross-encoder"));
}

/// As the tokenizers library cuts pairs: the longer text first.
TEST(EncodePair, IsCutAsTheFileSays) {
  json file = tiny_tokenizer();
  file["truncation"] = {
      {"direction", "Right"}, {"max_length", 6}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const auto cut = [&](const char* first, const char* second) {
    const auto pair = tools::Tokenizer::parse(file.dump()).encode_pair_cut(first, second);
    return std::pair(pair.second, pair.ids.size());
  };
  EXPECT_EQ(cut("ab", "cd"), std::pair(std::size_t{2}, std::size_t{4}));
  EXPECT_EQ(cut("ab", "cdefghij"), std::pair(std::size_t{2}, std::size_t{6}));
  EXPECT_EQ(cut("abcdefgh", "ijklmnop"), std::pair(std::size_t{3}, std::size_t{6}));
  EXPECT_EQ(cut("abcdefgh", "i"), std::pair(std::size_t{5}, std::size_t{6}));
}

}  // namespace
}  // namespace sinter::tests
