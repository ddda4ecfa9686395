// SPDX-License-Identifier: Apache-2.0
// A server in the test's process, and a client of it.
#pragma once

#include <nlohmann/json.hpp>
#include <thread>

#include <gmock/gmock.h>
#include <httplib.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/serve/http_server.h"

namespace sinter::tests {

using nlohmann::json;

constexpr int kContext = 48;

class ServeTest : public CliTest {
 protected:
  void SetUp() override {
    const auto compiled = sinter({"compile", source_dir() + "/models/tiny/decoder.onnx", "-o",
                                  path("plan"), "--target=cpu"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    model_.plan = path("plan");
    model_.context = kContext;
    model_.sequences = 4;
    model_.session.threads = 1;
  }
  void TearDown() override { end(); }

  void begin(tools::HttpOptions options = {}) {
    models_.load("tiny", model_);
    options.port = 0;
    server_ = std::make_unique<tools::HttpServer>(models_, options);
    port_ = server_->bind();
    thread_ = std::thread([this] { server_->run(); });
  }
  void end() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_keep_alive(false);
    return client;
  }
  json post(const json& body, int status = 200) const { return post(body.dump(), status); }
  json post(const std::string& body, int status = 200) const {
    const auto answer = client().Post("/v1/completions", body, "application/json");
    EXPECT_TRUE(answer) << to_string(answer.error());
    if (!answer) return {};
    EXPECT_EQ(answer->status, status) << answer->body;
    return json::parse(answer->body);
  }
  std::string refusal(const json& body, int status = 400) const {
    return post(body, status)["error"]["message"];
  }
  double figure(const std::string& line) const {
    const std::string text = client().Get("/metrics")->body;
    const auto at = text.find("\nsinter_" + line + " ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + 9 + line.size()));
  }

  tools::ServedModelOptions model_;
  tools::ModelRegistry models_;
  std::unique_ptr<tools::HttpServer> server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace sinter::tests
