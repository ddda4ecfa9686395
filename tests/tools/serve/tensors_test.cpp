// SPDX-License-Identifier: Apache-2.0
// Tensors over HTTP, by the Open Inference Protocol.
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>

#include <sinter/session.h>

#include "tests/tools/serve/serve_fixture.h"
#include "tools/serve/api/inference_answer.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

/// softmax(relu(x @ w + b)) as tensors in, tensors out.
class ServeTensorsTest : public ServeTest {
 protected:
  void SetUp() override {
    save(small_model(), "small.onnx");
    const auto compiled =
        sinter({"compile", path("small.onnx"), "-o", path("plan"), "--target=cpu"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    model_.plan = path("plan");
    model_.session.threads = 1;
  }
  httplib::Result infer(const std::string& body, const httplib::Headers& headers = {}) const {
    return client().Post("/v2/models/tiny/infer", headers, body, "application/json");
  }
  std::string refusal(const json& body) const {
    const auto answer = infer(body.dump());
    EXPECT_TRUE(answer);
    EXPECT_EQ(answer->status, 400) << answer->body;
    return json::parse(answer->body)["error"];  // text, as the protocol has it
  }
  static json request(std::vector<float> values, std::int64_t rows) {
    return {{"id", "7"},
            {"inputs",
             {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {rows, 8}}, {"data", values}}}}};
  }
};

TEST_F(ServeTensorsTest, JsonAndBinaryTensorsGiveTheSame) {
  begin();
  std::vector<float> x(16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 4 - 1;
  const auto answer = infer(request(x, 2).dump());
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const json said = json::parse(answer->body);
  EXPECT_EQ(said["id"], "7");
  EXPECT_EQ(said["outputs"][0]["shape"], json({2, 4}));
  Session session(Plan::load(path("plan")), {.threads = 1});
  session.set_input("x", TensorView::of({2, 8}, x));
  session.run();
  const auto* wanted = static_cast<const float*>(session.output("y").data);
  const auto found = said["outputs"][0]["data"].get<std::vector<float>>();
  EXPECT_EQ(found, std::vector<float>(wanted, wanted + 8));

  json nested = request({}, 2);
  nested["inputs"][0]["data"] = {std::vector<float>(x.begin(), x.begin() + 8),
                                 std::vector<float>(x.begin() + 8, x.end())};
  EXPECT_EQ(json::parse(infer(nested.dump())->body)["outputs"], said["outputs"]);

  json head = request({}, 2);
  head["inputs"][0].erase("data");
  head["inputs"][0]["parameters"] = {{"binary_data_size", 64}};
  head["parameters"] = {{"binary_data_output", true}};
  const std::string text = head.dump();
  const auto binary = infer(text + std::string(reinterpret_cast<const char*>(x.data()), 64),
                            {{"Inference-Header-Content-Length", std::to_string(text.size())}});
  ASSERT_TRUE(binary);
  ASSERT_EQ(binary->status, 200) << binary->body;
  const auto length = std::stoul(binary->get_header_value("Inference-Header-Content-Length"));
  ASSERT_EQ(binary->body.size(), length + 32);
  EXPECT_EQ(std::memcmp(binary->body.data() + length, wanted, 32), 0);
  EXPECT_EQ(json::parse(binary->body.substr(0, length))["outputs"][0]["parameters"],
            json({{"binary_data_size", 32}}));
}

TEST_F(ServeTensorsTest, RefusalsNameTheTensor) {
  begin();
  json wrong = request(std::vector<float>(15), 2);
  EXPECT_THAT(refusal(wrong), HasSubstr("'x' has 60 bytes: its shape has 16 elements of FP32"));
  wrong = request(std::vector<float>(16), 2);
  wrong["inputs"][0]["datatype"] = "BYTES";
  EXPECT_THAT(refusal(wrong), HasSubstr("BYTES"));
  wrong["inputs"][0]["datatype"] = "INT32";
  wrong["inputs"][0]["data"] = std::vector<int>(16);
  EXPECT_THAT(refusal(wrong), HasSubstr("'x'"));
  wrong["inputs"][0]["data"] = {1.5};
  EXPECT_THAT(refusal(wrong), HasSubstr("has 1.5, no integer"));
  wrong = request(std::vector<float>(16), 2);
  wrong["inputs"][0]["name"] = "z";
  EXPECT_THAT(refusal(wrong), HasSubstr("no input 'z'"));
  EXPECT_THAT(refusal({{"inputs", json::array()}}), HasSubstr("input 'x' is missing"));
  EXPECT_THAT(refusal(json::object()), HasSubstr("no 'inputs'"));
  wrong = request(std::vector<float>(16), 2);
  wrong["outputs"] = {{{"name", "q"}}};
  EXPECT_THAT(refusal(wrong), HasSubstr("'q' is no output"));
  wrong["outputs"] = {{{"name", "y"}}, {{"name", "y"}}};
  EXPECT_THAT(refusal(wrong), HasSubstr("'y' is asked for twice"));
  wrong = request({}, 2);
  wrong["inputs"][0].erase("data");
  wrong["inputs"][0]["parameters"] = {{"binary_data_size", 64}};
  EXPECT_THAT(refusal(wrong), HasSubstr("64 bytes of binary data, of which 0 have come"));
  wrong["inputs"][0]["shape"] = {1 << 30, 1 << 30, 1 << 30};
  EXPECT_THAT(refusal(wrong), HasSubstr("shape"));
  EXPECT_EQ(infer("{}", {{"Inference-Header-Content-Length", "9"}})->status, 400);
  EXPECT_EQ(infer("{}", {{"Inference-Header-Content-Length", "x"}})->status, 400);
  const std::string deep(100000, '[');
  EXPECT_EQ(infer("{\"inputs\": " + deep)->status, 400);
  EXPECT_EQ(post("{\"prompt\": " + deep, 400)["error"]["type"], "invalid_request_error");
  EXPECT_THAT(post(json{{"prompt", {1}}}, 400)["error"]["message"],
              HasSubstr("/v2/models/tiny/infer"));
  EXPECT_EQ(infer(request(std::vector<float>(8), 1).dump())->status, 200);  // and goes on
}

// What is long goes out bit by bit, and is the same.
TEST_F(ServeTensorsTest, LongAnswersAreWhole) {
  begin();
  constexpr std::int64_t kRows = 40'000;
  std::vector<float> x(8 * kRows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) / 31 - 1;
  Session session(Plan::load(path("plan")), {.threads = 1});
  session.set_input("x", TensorView::of({kRows, 8}, x));
  session.run();
  const auto* wanted = static_cast<const float*>(session.output("y").data);
  const json whole = json::parse(infer(request(x, kRows).dump())->body);
  EXPECT_EQ(whole["outputs"][0]["data"].get<std::vector<float>>(),
            std::vector<float>(wanted, wanted + 4 * kRows));
  json binary = request(x, kRows);
  binary["outputs"] = {{{"name", "y"}, {"parameters", {{"binary_data", true}}}}};
  const auto answer = infer(binary.dump());
  const auto length = std::stoul(answer->get_header_value("Inference-Header-Content-Length"));
  ASSERT_EQ(answer->body.size(), length + 16 * kRows);
  EXPECT_EQ(std::memcmp(answer->body.data() + length, wanted, 16 * kRows), 0);
}

TEST_F(ServeTensorsTest, AnswersAreWrittenInPieces) {
  const Plan plan = Plan::load(path("plan"));
  const std::size_t outputs = plan.outputs().size();
  ASSERT_EQ(outputs, 1U);
  tools::InferenceRequest wanted;
  wanted.id = "a\"b";
  wanted.outputs = {{0, false}};
  std::vector<tools::OwnedTensor> tensors(1);
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7;
  values[3] = std::numeric_limits<float>::quiet_NaN();
  tensors[0].shape = {1000};
  const auto bytes = std::as_bytes(std::span(values));
  tensors[0].data.assign(bytes.begin(), bytes.end());
  tools::InferenceAnswer answer(wanted, "m", plan, tensors);
  const std::size_t count = answer.count_json();
  std::string text;
  int pieces = 1;
  while (answer.next_json(text, 100)) ++pieces;
  EXPECT_GT(pieces, 50);
  EXPECT_EQ(text.size(), count);
  const json said = json::parse(text);
  EXPECT_EQ(said["id"], wanted.id);
  EXPECT_TRUE(said["outputs"][0]["data"][3].is_null());
  EXPECT_EQ(said["outputs"][0]["data"][999].get<float>(), values[999]);
  // An output without elements.
  tensors[0].shape = {0};
  tensors[0].data.clear();
  tools::InferenceAnswer empty(wanted, "m", plan, tensors);
  text.clear();
  EXPECT_FALSE(empty.next_json(text, 100));
  EXPECT_EQ(json::parse(text)["outputs"][0]["data"], json::array());
}

TEST_F(ServeTensorsTest, SaysWhatItTakes) {
  begin();
  const json said = json::parse(client().Get("/v2/models/tiny")->body);
  EXPECT_EQ(said["inputs"], json({{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, 8}}}}));
  EXPECT_EQ(client().Get("/v2/models/tiny/versions/1/ready")->status, 200);
  EXPECT_EQ(client().Get("/v2/models/other")->status, 404);
  EXPECT_EQ(json::parse(client().Get("/v2")->body)["name"], "sinter");
  EXPECT_EQ(json::parse(client().Post("/v2/repository/index")->body)[0]["name"], "tiny");
}

TEST_F(ServeTensorsTest, ManyClientsShareSessions) {
  model_.tensors.sessions = 2;
  begin();
  std::vector<std::thread> clients;
  for (int thread = 0; thread < 8; ++thread)
    clients.emplace_back([&, thread] {
      const std::vector<float> x(8, static_cast<float>(thread) / 8);
      const std::string alone = infer(request(x, 1).dump())->body;
      for (int i = 0; i < 10; ++i) EXPECT_EQ(infer(request(x, 1).dump())->body, alone);
    });
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(figure("inferences_total{model=\"tiny\"}"), 88);
  EXPECT_EQ(figure("inferences_running{model=\"tiny\"}"), 0);
}

// What runs at once is as long as what its requests get alone, and one's error is its own.
TEST_F(ServeTensorsTest, RequestsAreGatheredIntoBatches) {
  model_.tensors.batch_rows = 6;
  model_.tensors.batch_delay = std::chrono::milliseconds(20);
  begin();
  constexpr int kClients = 10, kEach = 8;
  std::atomic<int> refused = 0;
  std::vector<std::thread> clients;
  for (int thread = 0; thread < kClients; ++thread)
    clients.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::int64_t rows = 1 + (thread + i) % 3;
        std::vector<float> x(static_cast<std::size_t>(8 * rows));
        for (std::size_t k = 0; k < x.size(); ++k)
          x[k] = static_cast<float>((thread * 31 + i * 7 + static_cast<int>(k)) % 13) / 13;
        json body = request(x, rows);
        if (i == 3 && thread % 2 == 0) {  // the right number of elements in a wrong shape
          body["inputs"][0]["shape"] = {rows * 2, 4};
          refused += infer(body.dump())->status == 400 ? 1 : 0;
          continue;
        }
        const auto answer = infer(body.dump());
        ASSERT_EQ(answer->status, 200) << answer->body;
        const json said = json::parse(answer->body)["outputs"][0];
        EXPECT_EQ(said["shape"], json({rows, 4}));
        Session session(Plan::load(path("plan")), {.threads = 1});
        session.set_input("x", TensorView::of({rows, 8}, x));
        session.run();
        const auto* wanted = static_cast<const float*>(session.output("y").data);
        for (std::int64_t k = 0; k < rows * 4; ++k)
          EXPECT_NEAR(said["data"][static_cast<std::size_t>(k)].get<float>(), wanted[k], 1e-6);
      }
    });
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(refused, kClients / 2);
  EXPECT_EQ(figure("inferences_total{model=\"tiny\"}"), kClients * kEach);
  EXPECT_EQ(figure("inferences_failed_total{model=\"tiny\"}"), refused);
  EXPECT_LT(figure("inference_runs_total{model=\"tiny\"}"), kClients * kEach / 2);
}

}  // namespace
}  // namespace sinter::tests
