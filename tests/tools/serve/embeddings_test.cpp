// SPDX-License-Identifier: Apache-2.0
// Vectors of texts over HTTP, as OpenAI's API spells it.
#include <atomic>
#include <cmath>
#include <cstring>

#include <sinter/session.h>

#include "tests/support/paths.h"
#include "tests/tools/serve/serve_fixture.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

/// A tiny BERT: vectors of 32 for each token.
class ServeEmbeddingsTest : public ServeTest {
 protected:
  void SetUp() override {
    const auto compiled = sinter(
        {"compile", source_dir() + "/models/tiny/bert.onnx", "-o", path("plan"), "--target=cpu"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    model_.plan = path("plan");
    model_.session.threads = 1;
    model_.tensors.batch_rows = 16;
    model_.tensors.batch_delay = std::chrono::milliseconds(2);
  }
  json embed(const json& body, int status = 200) const {
    const auto answer = client().Post("/v1/embeddings", body.dump(), "application/json");
    EXPECT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->status, status) << answer->body;
    return json::parse(answer->body);
  }
  std::string refusal(const json& body) const { return embed(body, 400)["error"]["message"]; }
  /// The definition: the mean of the vectors of the first `tokens` tokens, of length 1.
  std::vector<float> expected(const Ids& ids, std::size_t tokens) const {
    Session session(Plan::load(path("plan")), {.threads = 1});
    const Ids mask(ids.size(), 1), shape = {1, std::ssize(ids)};
    session.set_input("input_ids", TensorView::of(shape, ids));
    session.set_input("attention_mask", TensorView::of(shape, mask));
    session.run();
    const auto* rows = static_cast<const float*>(session.output(std::size_t{0}).data);
    std::vector<float> mean(32);
    double square = 0;
    for (std::size_t e = 0; e < mean.size(); ++e) {
      for (std::size_t t = 0; t < tokens; ++t) mean[e] += rows[t * mean.size() + e];
      square += double{mean[e]} * mean[e];
    }
    for (float& x : mean) x /= static_cast<float>(std::sqrt(square));
    return mean;
  }
};

void expect_near(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << i;
}

Ids ids_of(std::size_t length) {
  Ids ids(length);
  for (std::size_t i = 0; i < length; ++i)
    ids[i] = static_cast<std::int64_t>(1 + (i * 7 + length) % 60);
  return ids;
}

TEST_F(ServeEmbeddingsTest, TextsOfDifferentLengthsAreAsAlone) {
  begin();
  std::vector<Ids> texts;
  for (const std::size_t length : {5U, 1U, 60U, 12U, 5U, 33U}) texts.push_back(ids_of(length));
  const json answer = embed({{"input", texts}, {"model", "tiny"}});
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "tiny");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 5 + 1 + 60 + 12 + 5 + 33);
  ASSERT_EQ(answer["data"].size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(answer["data"][i]["index"], i);
    expect_near(answer["data"][i]["embedding"], expected(texts[i], texts[i].size()));
  }
  const json one = embed({{"input", texts[2]}});
  expect_near(one["data"][0]["embedding"], expected(texts[2], texts[2].size()));
}

/// As GPUs run them, in shapes of a ladder.
TEST_F(ServeEmbeddingsTest, ShapesOfALadderChangeNothing) {
  const Plan plan = Plan::load(path("plan"));
  tools::TensorModel model(plan, {.threads = 1},
                           {.batch_rows = 12, .pads = true, .has_ladder = true});
  tools::Embedder embedder(model, tools::Pooling::kMean);
  std::vector<tools::EncoderText> texts;
  for (const std::size_t length : {5U, 17U, 1U, 511U, 16U, 40U, 7U}) {
    const Ids ids = ids_of(length);
    texts.push_back({{ids.begin(), ids.end()}});
  }
  const auto vectors = embedder.embed(texts);
  for (std::size_t i = 0; i < texts.size(); ++i)
    expect_near(vectors[i],
                expected({texts[i].ids.begin(), texts[i].ids.end()}, texts[i].ids.size()));
  EXPECT_LT(model.stats().runs, texts.size());
}

/// The mean of rows of a table, by a model that has no mask: it would count what is padded.
TEST_F(ServeEmbeddingsTest, WithoutAMaskTextsOfOneLengthAloneRunAtOnce) {
  onnx::ModelProto model = small_model();
  auto* graph = model.mutable_graph();
  for (auto* list : {graph->mutable_input(), graph->mutable_output()}) list->Clear();
  graph->clear_node();
  value(graph->add_input(), "input_ids", {"batch", "tokens"});
  graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  value(graph->add_output(), "y", {"batch", "4"});
  node(graph, "Gather", "rows", {"w", "input_ids"}, "rows");
  auto* mean = node(graph, "ReduceMean", "mean", {"rows"}, "y");
  for (const auto& [name, number] : {std::pair("keepdims", 0), std::pair("axes", 1)}) {
    auto* attribute = mean->add_attribute();
    attribute->set_name(name);
    const bool is_list = attribute->name() == "axes";
    attribute->set_type(is_list ? onnx::AttributeProto::INTS : onnx::AttributeProto::INT);
    if (is_list)
      attribute->add_ints(number);
    else
      attribute->set_i(number);
  }
  const auto compiled = sinter({"compile", save(model), "-o", path("mean.plan"), "--target=cpu"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  model_.plan = path("mean.plan");
  begin();
  const std::vector<Ids> texts = {{1, 2, 3}, {4}, {5, 6, 7}, {1, 2}};
  const json together = embed({{"input", texts}});
  for (std::size_t i = 0; i < texts.size(); ++i)
    expect_near(together["data"][i]["embedding"],
                embed({{"input", texts[i]}})["data"][0]["embedding"]);
}

TEST_F(ServeEmbeddingsTest, BytesAreTheFloats) {
  begin();
  const json answer = embed({{"input", ids_of(4)}, {"encoding_format", "base64"}});
  const std::string text = answer["data"][0]["embedding"];
  ASSERT_EQ(text.size(), (32 * 4 + 2) / 3 * 4);
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(c));
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFFU);
  }
  std::vector<float> vector(32);
  ASSERT_EQ(bytes.size(), vector.size() * sizeof(float));
  std::memcpy(vector.data(), bytes.data(), bytes.size());
  expect_near(vector, expected(ids_of(4), 4));
}

TEST_F(ServeEmbeddingsTest, TheFirstTokenMayStandForTheText) {
  model_.pooling = "first";
  begin();
  const json answer = embed({{"input", {ids_of(9), ids_of(3)}}});
  expect_near(answer["data"][0]["embedding"], expected(ids_of(9), 1));
  expect_near(answer["data"][1]["embedding"], expected(ids_of(3), 1));
}

TEST_F(ServeEmbeddingsTest, ManyClientsShareRuns) {
  model_.tensors.batch_delay = std::chrono::milliseconds(20);
  begin();
  constexpr std::size_t kClients = 8, kRounds = 10;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  std::vector<std::vector<float>> wanted;
  for (std::size_t i = 0; i < kClients; ++i)
    wanted.push_back(expected(ids_of(3 + i * 5), 3 + i * 5));
  for (std::size_t i = 0; i < kClients; ++i)
    clients.emplace_back([&, i] {
      for (std::size_t round = 0; round < kRounds; ++round) {
        const json answer = embed({{"input", ids_of(3 + i * 5)}});
        const std::vector<float> found = answer["data"][0]["embedding"];
        for (std::size_t e = 0; e < found.size(); ++e)
          if (std::abs(found[e] - wanted[i][e]) > 1e-5) ++wrong;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(figure(R"(inference_runs_total{model="tiny"})"), kClients * kRounds);
}

TEST_F(ServeEmbeddingsTest, WhatDoesNotFitIsRefusedByName) {
  begin();
  const auto ids = [](std::size_t count) { return json(Ids(count, 1)); };
  EXPECT_THAT(refusal({{"model", "tiny"}}), HasSubstr("'input' is missing"));
  EXPECT_THAT(refusal({{"input", "text"}}), HasSubstr("without a tokenizer"));
  EXPECT_THAT(refusal({{"input", json::array()}}), HasSubstr("has no tokens"));
  EXPECT_THAT(refusal({{"input", json(Ids{1, -2})}}), HasSubstr("has -2, which is no token id"));
  EXPECT_THAT(refusal({{"input", ids(2)}, {"dimensions", 8}}), HasSubstr("'dimensions'"));
  EXPECT_THAT(refusal({{"input", ids(2)}, {"encoding_format", "int8"}}),
              HasSubstr("'encoding_format'"));
  EXPECT_THAT(refusal({{"input", ids(2)}, {"foo", 1}}), HasSubstr("'foo' is not known"));
  EXPECT_THAT(refusal({{"input", ids(600)}}), HasSubstr("600 tokens"));
  EXPECT_THAT(refusal({{"input", json::array({json::array()})}}), HasSubstr("has no tokens"));
  const json text = post(json{{"prompt", ids(1)}}, 400);
  EXPECT_THAT(text["error"]["message"].get<std::string>(), HasSubstr("generates no text"));
  embed({{"input", ids(2)}});  // and serves on
}

}  // namespace
}  // namespace sinter::tests
