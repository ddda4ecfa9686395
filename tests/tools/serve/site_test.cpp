// SPDX-License-Identifier: Apache-2.0
// What pages in browsers may do with a server, and what they may not.
#include "tests/tools/serve/serve_fixture.h"
#include "tools/serve/http/site_guard.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;
using tools::http::SiteGuard;

const std::string kUnload = "/v2/repository/models/tiny/unload";
const std::string kAsk = R"({"prompt": [1], "max_tokens": 2, "temperature": 0})";

int status_of(const httplib::Result& answer) { return answer ? answer->status : -1; }

TEST(SiteGuard, KnowsItsNames) {
  const SiteGuard guard("127.0.0.1", {"Gpu.Example"}, {});
  for (const char* host : {"127.0.0.1:8000", "localhost", "LOCALHOST:1", "a.localhost:1",
                           "10.1.2.3", "[::1]:8000", "[fe80::1]", "gpu.example:8000"})
    EXPECT_TRUE(guard.knows_host(host)) << host;
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example", "1.2.3",
                           "", "[evil", "gpu.example.evil", "127.0.0.1.evil.example"})
    EXPECT_FALSE(guard.knows_host(host)) << host;
  EXPECT_TRUE(guard.is_own("http://localhost:8000", "localhost:8000"));
  EXPECT_FALSE(guard.is_own("http://localhost:3000", "localhost:8000"));
  EXPECT_FALSE(guard.is_own("http://evil.example", "evil.example"));
  EXPECT_FALSE(guard.is_own("null", "localhost"));
  EXPECT_TRUE(guard.is_loopback());
  EXPECT_FALSE(SiteGuard("0.0.0.0", {}, {}).is_loopback());
  EXPECT_TRUE(SiteGuard("0.0.0.0", {}, {"https://a.example/"}).allows("https://A.example"));
  EXPECT_FALSE(SiteGuard("0.0.0.0", {}, {"https://a.example"}).allows("http://a.example"));
  EXPECT_TRUE(SiteGuard("0.0.0.0", {}, {"*"}).allows("null"));
}

TEST_F(ServeTest, PagesOfOthersCannotAct) {
  begin();
  const std::string own = "127.0.0.1:" + std::to_string(port_);
  const auto post = [&](const std::string& path, const httplib::Headers& headers,
                        const std::string& body, const char* type) {
    return status_of(client().Post(path, headers, body, type));
  };
  const httplib::Headers evil = {{"Origin", "https://evil.example"}};
  EXPECT_EQ(post(kUnload, {}, "x", "text/plain"), 415);
  EXPECT_EQ(post(kUnload, evil, "{}", "application/json"), 403);
  EXPECT_EQ(post(kUnload, evil, "", "text/plain"), 403);
  EXPECT_EQ(post(kUnload, {{"Origin", "null"}}, "{}", "application/json"), 403);
  EXPECT_EQ(post("/v1/completions", evil, kAsk, "application/json"), 403);
  EXPECT_EQ(post("/v1/completions", {{"Origin", "http://evil.example"}, {"Host", "evil.example"}},
                 kAsk, "application/json"),
            403);
  EXPECT_EQ(post(kUnload, {{"Host", "evil.example"}}, "{}", "application/json"), 403);
  for (const char* path : {"/", "/v1/models", "/metrics"})
    EXPECT_EQ(status_of(client().Get(path, {{"Host", "evil.example"}})), 403) << path;
  EXPECT_EQ(status_of(client().Get("/health", {{"Host", "evil.example"}})), 200);
  // Reading is not told to pages, and asking first is refused.
  const auto read = client().Get("/v1/models", evil);
  EXPECT_EQ(status_of(read), 200);
  EXPECT_FALSE(read->has_header("Access-Control-Allow-Origin"));
  EXPECT_EQ(status_of(client().Options("/v1/completions", evil)), 403);
  // The server's own page may ask.
  EXPECT_EQ(post("/v1/completions", {{"Origin", "http://" + own}}, kAsk, "application/json"), 200);
  EXPECT_EQ(status_of(client().Get("/", {{"Host", "localhost:1"}})), 200);
}

TEST_F(ServeTest, BodiesAreWhatTheySay) {
  begin();
  const auto post = [&](const httplib::Headers& headers, const char* type) {
    return status_of(client().Post("/v1/completions", headers, kAsk, type));
  };
  EXPECT_EQ(post({}, "application/json"), 200);
  EXPECT_EQ(post({}, "Application/JSON; charset=utf-8"), 200);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "application/octet-stream", "application/jsonx"})
    EXPECT_EQ(post({}, type), 415) << type;
  const auto answer = client().Post("/v1/completions", {}, kAsk, "text/plain");
  EXPECT_THAT(answer->body, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(answer->body, HasSubstr("invalid_request_error"));
}

TEST_F(ServeTest, PagesThatAreNamedMayAsk) {
  tools::HttpOptions options;
  options.origins = {"https://app.example"};
  options.api_keys = {"secret"};
  begin(options);
  const httplib::Headers page = {{"Origin", "https://app.example"}};
  httplib::Headers first = page;
  first.emplace("Access-Control-Request-Method", "POST");
  first.emplace("Access-Control-Request-Headers", "authorization,content-type");
  const auto preflight = client().Options("/v1/completions", first);
  EXPECT_EQ(status_of(preflight), 204);
  EXPECT_EQ(preflight->get_header_value("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(preflight->get_header_value("Access-Control-Allow-Headers"),
            "authorization,content-type");
  EXPECT_THAT(preflight->get_header_value("Access-Control-Allow-Methods"), HasSubstr("POST"));
  auto asks = client();
  EXPECT_EQ(status_of(asks.Post("/v1/completions", page, kAsk, "application/json")), 401);
  asks.set_bearer_token_auth("secret");
  const auto answer = asks.Post("/v1/completions", page, kAsk, "application/json");
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(answer->get_header_value("Vary"), "Origin");
  EXPECT_EQ(status_of(asks.Post("/v1/completions", {{"Origin", "https://other.example"}}, kAsk,
                                "application/json")),
            403);
}

TEST_F(ServeTest, UnloadingCanBeUndone) {
  begin();
  const json wanted = post(json::parse(kAsk));
  EXPECT_EQ(status_of(client().Post(kUnload)), 200);
  EXPECT_EQ(status_of(client().Post(kUnload)), 404);
  for (const char* path : {"/health", "/v2/health/ready"})
    EXPECT_EQ(status_of(client().Get(path)), 503) << path;
  EXPECT_EQ(status_of(client().Get("/v2/health/live")), 200);
  const auto ready = client().Get("/v2/models/tiny/ready");
  EXPECT_EQ(status_of(ready), 404);
  EXPECT_THAT(ready->body, HasSubstr("/v2/repository/models/tiny/load"));
  EXPECT_TRUE(json::parse(client().Get("/v1/models")->body)["data"].empty());
  EXPECT_EQ(json::parse(client().Post("/v2/repository/index")->body)[0]["state"], "UNAVAILABLE");
  EXPECT_EQ(status_of(client().Post("/v2/repository/models/tiny/load")), 200);
  EXPECT_EQ(status_of(client().Get("/health")), 200);
  EXPECT_EQ(status_of(client().Get("/v2/models/tiny/ready")), 200);
  EXPECT_EQ(json::parse(client().Post("/v2/repository/index")->body)[0]["state"], "READY");
  EXPECT_EQ(post(json::parse(kAsk))["choices"], wanted["choices"]);
}

TEST_F(ServeTest, FewLoadsWait) {
  begin();
  constexpr int kLoads = 64;
  std::atomic<int> loaded = 0, refused = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < kLoads; ++i)
    clients.emplace_back([&] {
      const auto answer = client().Post("/v2/repository/models/tiny/load");
      const int status = status_of(answer);
      loaded += status == 200 ? 1 : 0;
      refused += status == 429 ? 1 : 0;
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(loaded + refused, kLoads);
  EXPECT_GT(loaded, 0);
  EXPECT_GT(refused, 0);
  post(json::parse(kAsk));
}

}  // namespace
}  // namespace sinter::tests
