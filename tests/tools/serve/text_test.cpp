// SPDX-License-Identifier: Apache-2.0
// Texts over HTTP, of a tiny decoder for the CPU: answers, errors, clients that leave.
#include <atomic>
#include <fstream>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "runtime/engine/executor.h"
#include "tests/support/paths.h"
#include "tests/tools/serve/http/http_fixture.h"
#include "tests/tools/serve/serve_fixture.h"
#include "tests/tools/tiny_tokenizer.h"
#include "tools/serve/api/api_error.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

json prompt(std::initializer_list<int> ids, int tokens = 8) {
  return {{"prompt", ids}, {"max_tokens", tokens}, {"temperature", 0}};
}

TEST_F(ServeTest, GreedyTokensAreThoseOfNumpy) {
  begin();
  std::ifstream file(source_dir() + "/tests/tools/goldens/greedy.json");
  const json goldens = json::parse(file);
  ASSERT_FALSE(goldens["decoder"].empty());
  for (const json& golden : goldens["decoder"]) {
    const json answer = post({{"model", "tiny"},
                              {"prompt", golden["prompt"]},
                              {"max_tokens", golden["tokens"].size()},
                              {"temperature", 0}});
    EXPECT_EQ(answer["choices"][0]["token_ids"], golden["tokens"]);
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(answer["usage"]["completion_tokens"], golden["tokens"].size());
    EXPECT_EQ(answer["usage"]["prompt_tokens"], golden["prompt"].size());
  }
}

TEST_F(ServeTest, StreamsGiveTheSameInPieces) {
  begin();
  json body = prompt({1, 2, 3});
  body["n"] = 2;
  body["logprobs"] = 2;
  const json whole = post(body);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const auto answer = client().Post("/v1/completions", body.dump(), "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/event-stream");
  std::vector<std::vector<int>> tokens(2);
  std::vector<std::string> finish(2);
  json usage;
  std::istringstream lines(answer->body);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: ")) continue;
    last = line.substr(6);
    if (last == "[DONE]") continue;
    const json piece = json::parse(last);
    if (piece.contains("usage")) usage = piece["usage"];
    for (const json& choice : piece["choices"]) {
      const std::size_t i = choice["index"];
      for (const int id : choice["token_ids"]) tokens[i].push_back(id);
      EXPECT_EQ(choice["logprobs"]["tokens"].size(), choice["token_ids"].size());
      if (!choice["finish_reason"].is_null()) finish[i] = choice["finish_reason"];
    }
  }
  EXPECT_EQ(last, "[DONE]");
  EXPECT_EQ(usage, whole["usage"]);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(json(tokens[i]), whole["choices"][i]["token_ids"]);
    EXPECT_EQ(finish[i], "length");
    EXPECT_EQ(whole["choices"][i]["logprobs"]["top_logprobs"][0].size(), 2u);
  }
}

TEST_F(ServeTest, RefusalsNameWhatIsWrong) {
  begin();
  EXPECT_THAT(refusal({{"prompt", "text"}}), HasSubstr("without a tokenizer"));
  EXPECT_THAT(refusal({{"max_tokens", 3}}), HasSubstr("'prompt' is missing"));
  EXPECT_THAT(refusal({{"prompt", {1, -2}}}), HasSubstr("-2, which is no token id"));
  EXPECT_THAT(refusal({{"prompt", {1}}, {"temprature", 1}}),
              HasSubstr("'temprature' is not known"));
  EXPECT_THAT(refusal({{"prompt", {1}}, {"top_p", 1.5}}), HasSubstr("expected 0 to 1"));
  EXPECT_THAT(refusal({{"prompt", {1}}, {"n", 0}}), HasSubstr("'n' is 0"));
  EXPECT_THAT(refusal({{"prompt", {1}}, {"echo", true}}), HasSubstr("'echo' is not supported"));
  EXPECT_THAT(refusal({{"prompt", {1}}, {"max_tokens", 1e9}}), HasSubstr("is no integer"));
  EXPECT_THAT(refusal(prompt({1}, 1000)), HasSubstr("shorten the prompt"));
  EXPECT_THAT(refusal(prompt({9999})), HasSubstr("9999"));
  EXPECT_THAT(refusal({{"prompt", {1}}, {"model", "other"}}, 404), HasSubstr("'other'"));
  EXPECT_THAT(post(std::string("{\"prompt\": [1"), 400)["error"]["message"], HasSubstr("not JSON"));
  EXPECT_THAT(post(std::string("{\"prompt\": \"\xff\"}"), 400)["error"]["message"],
              HasSubstr("not JSON"));
  EXPECT_THAT(post(std::string("[]"), 400)["error"]["message"], HasSubstr("no JSON object"));
  EXPECT_EQ(json::parse(client().Get("/nothing")->body)["error"]["type"], "not_found_error");
  const auto chat = client().Post("/v1/chat/completions", "{}", "application/json");
  EXPECT_EQ(chat->status, 501);
  EXPECT_THAT(chat->body, HasSubstr("--chat-template"));
  EXPECT_EQ(post(prompt({1, 2}))["choices"].size(), 1u);  // and goes on
}

TEST_F(ServeTest, LongBodiesAndMissingKeysAreRefused) {
  tools::HttpOptions options;
  options.limits.body_bytes = 2048;
  options.api_keys = {"first", "second"};
  begin(options);
  auto asks = client();
  EXPECT_EQ(asks.Post("/v1/completions", prompt({1}).dump(), "application/json")->status, 401);
  EXPECT_EQ(asks.Get("/health")->status, 200);
  EXPECT_EQ(asks.Get("/v1/models")->status, 401);
  asks.set_bearer_token_auth("secon");
  EXPECT_EQ(asks.Get("/v1/models")->status, 401);
  asks.set_bearer_token_auth("second");
  EXPECT_EQ(asks.Get("/v1/models")->status, 200);
  EXPECT_EQ(asks.Post("/v1/completions", std::string(4096, ' '), "application/json")->status, 413);
  EXPECT_EQ(asks.Post("/v1/completions", prompt({1}).dump(), "application/json")->status, 200);
}

// Each answer is the one that its request gets alone, whatever others do meanwhile.
TEST_F(ServeTest, ManyClientsGetTheirOwnAnswers) {
  begin();
  const auto body_of = [](int i) {
    json body = {{"prompt", {i % 7 + 1, i % 5 + 1}},
                 {"max_tokens", 4 + i % 20},
                 {"seed", i},
                 {"temperature", i % 3 == 0 ? 0.0 : 1.0}};
    if (i % 4 == 0) body["n"] = 2;
    return body;
  };
  constexpr int kRequests = 60;
  std::vector<json> alone;
  for (int i = 0; i < kRequests; ++i) alone.push_back(post(body_of(i))["choices"]);
  std::vector<json> together(kRequests);
  std::vector<std::thread> clients;
  for (int thread = 0; thread < 12; ++thread)
    clients.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int i = thread; i < kRequests; i += 12) {
        if (random() % 2 == 0) {  // one that leaves after the first piece
          json leaves = prompt({3, static_cast<int>(random() % 50)}, 40);
          leaves["stream"] = true;
          httplib::Request request;
          request.method = "POST";
          request.path = "/v1/completions";
          request.body = leaves.dump();
          request.content_receiver = [](const char*, std::size_t, std::uint64_t, std::uint64_t) {
            return false;
          };
          client().send(request);
        }
        if (random() % 3 == 0) post(std::string("{bad"), 400);
        together[static_cast<std::size_t>(i)] = post(body_of(i))["choices"];
      }
    });
  for (std::thread& thread : clients) thread.join();
  for (int i = 0; i < kRequests; ++i)
    EXPECT_EQ(together[static_cast<std::size_t>(i)], alone[static_cast<std::size_t>(i)])
        << "request " << i;
  // Who left holds nothing.
  for (int wait = 0; wait < 200 && figure("sequences_running{model=\"tiny\"}") > 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(figure("sequences_running{model=\"tiny\"}"), 0);
  EXPECT_EQ(figure("cache_blocks_used{model=\"tiny\"}"), 0);
  EXPECT_EQ(figure("requests_total{model=\"tiny\"}"),
            figure("requests_finished_total{model=\"tiny\"}"));
}

// Who asks for much and reads nothing: its texts end before all of it waits in memory.
TEST_F(ServeTest, TextsOfWhoDoesNotReadAreCancelled) {
  begin();
  json body = prompt({1, 2, 3}, 44);
  body["prompt"] = std::vector<std::vector<int>>(128, {1});
  body["n"] = 4;
  body["logprobs"] = 20;
  body["stream"] = true;
  body["ignore_eos"] = true;
  const RawClient silent(port_);
  const std::string text = body.dump();
  silent.send(
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\n\r\n{}",
                  text.size(), text));
  EXPECT_TRUE(
      eventually([&] { return figure("http_refused_total{reason=\"slow_reader\"}") == 1; }));
  EXPECT_TRUE(eventually([&] { return figure("sequences_running{model=\"tiny\"}") == 0; }));
  EXPECT_GT(figure("texts_finished_total{model=\"tiny\",reason=\"cancelled\"}"), 0);
  EXPECT_EQ(post(prompt({1, 2}))["choices"].size(), 1u);
}

TEST_F(ServeTest, MoreThanMayWaitAreRefused) {
  model_.sequences = 1;
  model_.waiting = 1;
  begin();
  std::atomic<int> refused = 0, answered = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i)
    clients.emplace_back([&] {
      const auto answer =
          client().Post("/v1/completions", prompt({1, 2, 3}, 44).dump(), "application/json");
      ASSERT_TRUE(answer);
      if (answer->status == 429) {
        ++refused;
        EXPECT_EQ(answer->get_header_value("Retry-After"), "1");
      } else {
        EXPECT_EQ(answer->status, 200);
        EXPECT_EQ(json::parse(answer->body)["choices"][0]["token_ids"].size(), 44u);
        ++answered;
      }
    });
  for (std::thread& thread : clients) thread.join();
  EXPECT_GT(answered, 0);
  EXPECT_EQ(answered + refused, 12);
}

TEST_F(ServeTest, ModelsAreReplacedAndUnloadedWhileRequestsRun) {
  begin();
  const json wanted = post(prompt({1, 2, 3}, 30))["choices"];
  std::atomic<bool> ends = false;
  std::thread asks([&] {
    while (!ends) EXPECT_EQ(post(prompt({1, 2, 3}, 30))["choices"], wanted);
  });
  for (int i = 0; i < 5; ++i) {
    const auto answer = client().Post("/v2/repository/models/tiny/load");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200) << answer->body;
  }
  ends = true;
  asks.join();
  EXPECT_EQ(client().Post("/v2/repository/models/other/load")->status, 404);
  EXPECT_EQ(client().Post("/v2/repository/models/tiny/unload")->status, 200);
  EXPECT_THAT(refusal(prompt({1})), HasSubstr("no model is loaded"));
}

TEST_F(ServeTest, DrainingEndsWhatRunsAndRefusesTheRest) {
  begin();
  json answer;
  std::thread asks([&] { answer = post(prompt({1, 2, 3}, 44)); });
  while (figure("requests_total{model=\"tiny\"}") < 1) std::this_thread::yield();
  server_->begin_drain();
  EXPECT_EQ(client().Get("/health")->status, 503);
  EXPECT_THAT(refusal(prompt({1}), 503), HasSubstr("shut down"));
  models_.drain();
  asks.join();
  EXPECT_EQ(answer["choices"][0]["token_ids"].size(), 44u);
}

/// Fails in its first step, and is lost.
class LostExecutor : public engine::Executor {
 public:
  LostExecutor() {
    limits_.vocabulary = 16;
    limits_.max_positions = 32;
    limits_.block_size = 4;
    limits_.block_count = 16;
    limits_.max_sequences = 2;
    limits_.max_step_tokens = 8;
  }
  const engine::ExecutorLimits& limits() const override { return limits_; }
  void start(const engine::StepPlan&) override { throw Error(ErrorCode::kDevice, "no step"); }
  engine::StepResult finish() override { return {}; }
  void recover() override { throw Error(ErrorCode::kDevice, "the device is lost"); }

 private:
  engine::ExecutorLimits limits_;
};

// Whoever asks hears that a model cannot answer, and why; others go on.
TEST_F(ServeTest, AModelThatCannotAnswerIsNotReady) {
  begin();
  models_.put(std::make_shared<tools::ServedModel>("lost", std::make_unique<LostExecutor>()));
  const auto status = [&](const char* path) { return client().Get(path)->status; };
  const char* const kOwn[] = {"/health", "/v2/health/ready", "/v2/models/lost/ready"};
  for (const char* path : kOwn) EXPECT_EQ(status(path), 200) << path;
  EXPECT_EQ(figure("model_ready{model=\"lost\"}"), 1);
  json body = prompt({1, 2});
  body["model"] = "lost";
  EXPECT_THAT(refusal(body, 500), HasSubstr("no step"));
  while (!models_.find("lost")->engine()->failure()) std::this_thread::yield();
  for (const char* path : kOwn) {
    const auto answer = client().Get(path);
    EXPECT_EQ(answer->status, 503) << path;
    EXPECT_THAT(answer->body, HasSubstr("the device is lost"));
  }
  EXPECT_THAT(refusal(body, 503), HasSubstr("the device is lost"));
  EXPECT_EQ(status("/v2/health/live"), 200);
  EXPECT_EQ(status("/v2/models/tiny/ready"), 200);
  const json models = json::parse(client().Get("/v1/models")->body);
  for (const json& model : models["data"]) {
    EXPECT_EQ(model["ready"], model["id"] == "tiny");
    EXPECT_EQ(model.contains("error"), model["id"] == "lost");
  }
  const auto index = client().Post("/v2/repository/index", "{}", "application/json");
  for (const json& model : json::parse(index->body))
    EXPECT_EQ(model["state"], model["name"] == "tiny" ? "READY" : "UNAVAILABLE");
  EXPECT_EQ(figure("model_ready{model=\"lost\"}"), 0);
  EXPECT_EQ(figure("model_ready{model=\"tiny\"}"), 1);
  EXPECT_EQ(figure("steps_failed_total{model=\"lost\"}"), 1);
  json other = prompt({1, 2});
  other["model"] = "tiny";
  EXPECT_EQ(post(other)["choices"].size(), 1u);
  client().Post("/v2/repository/models/lost/unload", "{}", "application/json");
  EXPECT_EQ(status("/health"), 200);
}

TEST_F(ServeTest, ConversationsAreTextByTheTemplate) {
  model_.tokenizer = path("tokenizer.json");
  std::ofstream(model_.tokenizer) << tiny_tokenizer();
  std::ofstream(path("tokenizer_config.json"))
      << json{{"chat_template",
               "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
               "{% if tools %}T{{ tools | length }}{% endif %}"}};
  begin();
  const auto chat = [&](json body, int status = 200) {
    const auto answer = client().Post("/v1/chat/completions", body.dump(), "application/json");
    EXPECT_TRUE(answer);
    EXPECT_EQ(answer->status, status) << answer->body;
    return json::parse(answer->body);
  };
  const json messages = {
      {{"role", "system"}, {"content", "be"}},
      {{"role", "user"},
       {"content", {{{"type", "text"}, {"text", "a "}}, {{"type", "text"}, {"text", "b"}}}}}};
  const json text = post({{"prompt", "system:be;user:a b;"},
                          {"max_tokens", 6},
                          {"temperature", 0},
                          {"ignore_eos", true},
                          {"return_token_ids", true}});
  json body = {{"messages", messages}, {"max_tokens", 6},          {"temperature", 0},
               {"ignore_eos", true},   {"return_token_ids", true}, {"logprobs", true},
               {"top_logprobs", 2}};
  const json said = chat(body);
  EXPECT_EQ(said["object"], "chat.completion");
  EXPECT_EQ(said["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(said["choices"][0]["message"]["content"], text["choices"][0]["text"]);
  EXPECT_EQ(said["choices"][0]["token_ids"], text["choices"][0]["token_ids"]);
  EXPECT_EQ(said["usage"], text["usage"]);
  ASSERT_EQ(said["choices"][0]["logprobs"]["content"].size(), 6u);
  EXPECT_EQ(said["choices"][0]["logprobs"]["content"][5]["top_logprobs"].size(), 2u);
  body["stream"] = true;
  const auto stream = client().Post("/v1/chat/completions", body.dump(), "application/json")->body;
  EXPECT_THAT(stream, HasSubstr("\"delta\":{\"role\":\"assistant\","));
  EXPECT_THAT(stream, HasSubstr("chat.completion.chunk"));
  // Without a limit, as long as fits.
  const json rest = chat({{"messages", messages}, {"ignore_eos", true}});
  EXPECT_EQ(rest["usage"]["total_tokens"], kContext);
  // Tools are the template's: they change the prompt.
  EXPECT_EQ(chat({{"messages", messages},
                  {"max_tokens", 1},
                  {"tools", {{{"type", "x"}}}}})["usage"]["prompt_tokens"],
            said["usage"]["prompt_tokens"].get<int>() + 2);
  const auto refused = [&](const json& wrong) {
    return chat(wrong, 400)["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(refused(json::object()), HasSubstr("'messages' is missing"));
  EXPECT_THAT(refused({{"messages", json::array()}}), HasSubstr("no list of messages"));
  EXPECT_THAT(refused({{"messages", {{{"content", "a"}}}}}), HasSubstr("without a 'role'"));
  EXPECT_THAT(refused({{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}),
              HasSubstr("an image without a 'url'"));
  EXPECT_THAT(refused({{"messages", messages}, {"prompt", "a"}}),
              HasSubstr("'prompt' is not known"));
  EXPECT_THAT(refused({{"messages", messages}, {"tool_choice", "required"}}),
              HasSubstr("'tool_choice'"));
}

TEST_F(ServeTest, StatusesSayWhoseFaultItIs) {
  const auto status_of = [](const Error& error) { return tools::ApiError::of(error).status(); };
  EXPECT_EQ(status_of(Error(ErrorCode::kUsage, "a wrong option")), 400);
  EXPECT_EQ(status_of(QueueFullError(ErrorCode::kUsage, "later")), 429);
  EXPECT_EQ(status_of(EngineStoppedError(ErrorCode::kDevice, "the device is lost")), 503);
  EXPECT_EQ(status_of(EngineStoppedError(ErrorCode::kUsage, "drained")), 503);
  EXPECT_EQ(status_of(Error(ErrorCode::kInternal, "a defect")), 500);
}

TEST_F(ServeTest, WhatCannotBeServedIsSaid) {
  begin();
  tools::HttpOptions taken;
  taken.port = port_;
  EXPECT_THROW(tools::HttpServer(models_, taken).bind(), Error);
  tools::ServedModelOptions open = model_;
  open.plan = path("own");
  ASSERT_EQ(sinter({"compile", source_dir() + "/models/tiny/decoder.onnx", "-o", open.plan,
                    "--target=cpu", "--serve=off"})
                .code,
            0);
  try {
    models_.load("open", open);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("without --serve=off"));
  }
  EXPECT_EQ(models_.all().size(), 1u);
}

}  // namespace
}  // namespace sinter::tests
