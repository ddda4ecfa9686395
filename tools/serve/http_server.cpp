// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http_server.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <sinter/sinter.h>

#include "runtime/format_error.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/api_key.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/multipart.h"
#include "tools/serve/http/server.h"
#include "tools/serve/http/site_guard.h"
#include "tools/serve/http_metrics.h"
#include "tools/serve/metrics.h"
#include "tools/serve/models/model_description.h"
#include "tools/serve/openai/api_routes.h"
#include "tools/serve/openai/transcription.h"
#include "tools/serve/page.h"
#include "tools/serve/responses.h"

namespace sinter::tools {
namespace {

using http::Request;
using http::Response;
using http::Work;
using nlohmann::ordered_json;

/// Marks of a route.
enum : std::uint32_t {
  kOpen = 1,    // needs no key, and no name of the server: it says nothing
  kNamed = 2,   // asked by a name of the server alone: the page, and what changes the server
  kBinary = 4,  // a body may be application/octet-stream
  kForm = 8,    // a body is multipart/form-data
};

Response text_response(std::string text) { return {.type = kJsonType, .body = std::move(text)}; }
Response json_response(const ordered_json& value) { return text_response(dump(value)); }

/// As the API that the path belongs to says errors.
Response failure(const Request& request, const ApiError& error) {
  Response response = json_response(
      request.path.starts_with("/v2") ? ordered_json{{"error", error.what()}} : error.body());
  response.status = error.status();
  if (error.status() == 429 || error.status() == 503)
    response.headers.emplace_back("Retry-After", "1");
  return response;
}

Response failure(const Request& request, std::exception_ptr error) {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const ApiError& what) {
    return failure(request, what);
  } catch (const Error& what) {
    return failure(request, ApiError::of(what));
  } catch (const std::bad_alloc&) {
    return failure(request, ApiError(503, "memory is short: try again later"));
  } catch (const std::exception& what) {
    return failure(request, ApiError(500, what.what()));
  } catch (...) {
    return failure(request, ApiError(500, "a defect of the server"));
  }
}

TensorModel& tensors_of(const ServedModel& model) {
  if (model.tensors() == nullptr)
    throw ApiError(400, fmt::format("'{}' generates text: POST /v1/completions", model.name()));
  return *model.tensors();
}

}  // namespace

struct HttpServer::Impl {
  Impl(ModelRegistry& registry, HttpOptions given)
      : models(registry),
        options(std::move(given)),
        guard(options.host, options.hosts, options.origins),
        server(options.limits, routes(), hooks()) {}

  ModelRegistry& models;
  HttpOptions options;
  http::SiteGuard guard;
  std::atomic<bool> draining = false;
  http::Server server;

  http::Router routes() {
    http::Router router;
    const auto get = [&](std::string_view path, std::uint32_t marks, http::Handler handler) {
      router.add("GET", path, Work::kQuick, marks, std::move(handler));
    };
    const auto post = [&](std::string_view path, std::uint32_t marks, http::Handler handler) {
      router.add("POST", path, Work::kWorker, marks, std::move(handler));
    };
    get("/", kOpen | kNamed,
        [](const Request& request) { return page_response("index.html", request); });
    get("/page/{name}", kOpen | kNamed,
        [](const Request& request) { return page_response(request.parameters[0], request); });
    get("/page/vendor/{name}", kOpen | kNamed, [](const Request& request) {
      return page_response("vendor/" + request.parameters[0], request);
    });
    get("/health", kOpen, [this](const Request&) { return health(); });
    get("/v2/health/ready", kOpen, [this](const Request&) { return health(); });
    get("/v2/health/live", kOpen,
        [](const Request&) { return text_response(R"({"status":"ok"})"); });
    get("/metrics", 0, [this](const Request&) { return metrics(); });
    get("/v1/models", 0, [this](const Request&) { return list(); });
    get("/v1/models/{name}", 0, [this](const Request& request) {
      return json_response(description_of(*models.find(request.parameters[0])));
    });
    for (const ApiRoute& route : api_routes())
      post(route.path, 0, [this, &route](const Request& request) {
        if (draining) throw ApiError(503, "the server is being shut down");
        return response_of(route.answer(models, request.body));
      });
    for (const SpeechRoute& route : speech_routes())
      router.add("POST", route.path, Work::kWaiter, kForm,
                 [this, &route](const Request& request) { return listen(request, route); });
    get("/v2", 0, [](const Request&) { return server_metadata(); });
    for (const std::string model : {"/v2/models/{name}", "/v2/models/{name}/versions/1"}) {
      get(model, 0, [this](const Request& request) { return model_metadata(request); });
      get(model + "/ready", 0, [this](const Request& request) { return model_ready(request); });
      post(model + "/infer", kBinary, [this](const Request& request) { return infer(request); });
    }
    router.add("POST", "/v2/repository/index", Work::kQuick, 0,
               [this](const Request&) { return index(); });
    router.add("POST", "/v2/repository/models/{name}/load", Work::kWaiter, kNamed,
               [this](const Request& request) {
                 models.reload(request.parameters[0]);
                 return text_response("{}");
               });
    router.add("POST", "/v2/repository/models/{name}/unload", Work::kWaiter, kNamed,
               [this](const Request& request) {
                 models.unload(request.parameters[0]);
                 return text_response("{}");
               });
    return router;
  }

  // Who may ask.

  http::Hooks hooks() {
    return {.admit = [this](const Request& request,
                            const http::Route* route) { return admit(request, route); },
            .refuse =
                [](const Request& request, int status, std::string_view message) {
                  std::string text(message);
                  if (status == 404) text += ": `sinter help serve` lists what there is";
                  if (status == 413) text += ": see --max-body";
                  return failure(request, ApiError(status, std::move(text)));
                },
            .error = [](const Request& request,
                        std::exception_ptr error) { return failure(request, std::move(error)); },
            .finish = [this](const Request& request,
                             Response& response) { finish(request, response); }};
  }

  std::optional<Response> admit(const Request& request, const http::Route* route) const {
    const auto refuse = [&](int status, std::string message) {
      return failure(request, ApiError(status, std::move(message)));
    };
    const std::uint32_t marks = route == nullptr ? 0 : route->marks;
    const bool is_question = request.method == "GET" || request.method == "HEAD";
    const std::string_view origin = request.header("origin");
    // Pages may read what they ask for if they are told so alone (finish), but what they send has
    // an effect.
    if (!origin.empty() && !is_question && !guard.allows(origin) &&
        !guard.is_own(origin, request.host))
      return refuse(403, fmt::format("the page of '{}' may not ask this server: --allow-origin "
                                     "names pages that may",
                                     origin.substr(0, 128)));
    // A browser that was led here by a stranger's name asks for that name.
    const bool is_secret = is_question && guard.is_loopback() && (marks & kOpen) == 0;
    if (((marks & kNamed) != 0 || is_secret) && !request.host.empty() &&
        !guard.knows_host(request.host))
      return refuse(403, fmt::format("'{}' is no name of this server that it knows: --allow-host "
                                     "names others",
                                     request.host.substr(0, 128)));
    // A browser sends no key with OPTIONS.
    const bool is_open = (marks & kOpen) != 0 || request.method == "OPTIONS";
    if (!is_open && !is_admitted(options.api_keys, std::string(request.header("authorization"))))
      return refuse(401, kNoKey);
    if (route == nullptr || is_question || !request.has_body) return std::nullopt;
    // What a page may send without asking first (text/plain, a form) is not taken.
    const std::string type = request.media_type();
    const bool is_of_page = !origin.empty() || request.has("sec-fetch-site");
    const char* wanted = (marks & kForm) != 0 ? "multipart/form-data" : kJsonType;
    if (type == wanted || (type.empty() && !is_of_page) ||
        ((marks & kBinary) != 0 && type == "application/octet-stream"))
      return std::nullopt;
    return refuse(415, fmt::format("the body is '{}': send it with 'Content-Type: {}'",
                                   type.substr(0, 64), wanted));
  }

  /// Tells browsers which pages may read it.
  void finish(const Request& request, Response& response) const {
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
    const std::string_view origin = request.header("origin");
    if (origin.empty() || !guard.allows(origin)) return;
    response.headers.emplace_back("Access-Control-Allow-Origin", origin);
    response.headers.emplace_back("Vary", "Origin");
    if (request.method != "OPTIONS") {
      response.headers.emplace_back("Access-Control-Expose-Headers",
                                    "Inference-Header-Content-Length, Retry-After");
      return;
    }
    response.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST");
    const std::string_view wanted = request.header("access-control-request-headers");
    response.headers.emplace_back("Access-Control-Allow-Headers",
                                  wanted.empty() ? "Authorization, Content-Type" : wanted);
    if (request.has("access-control-request-private-network"))
      response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
    response.headers.emplace_back("Access-Control-Max-Age", "600");
  }

  // About the server.

  Response health() const {
    if (draining) throw ApiError(503, "the server is being shut down");
    if (const ModelState state = models.state(); !state.is_ready) throw ApiError(503, state.reason);
    return text_response(R"({"status":"ok"})");
  }
  Response metrics() const {
    return {.type = "text/plain; version=0.0.4",
            .body = metrics_text(models) + http_metrics_text(server.figures())};
  }
  Response list() const {
    ordered_json all = ordered_json::array();
    for (const auto& model : models.all()) all.push_back(description_of(*model));
    return json_response({{"object", "list"}, {"data", std::move(all)}});
  }

  // The Open Inference Protocol (KServe v2).

  static Response server_metadata() {
    return json_response({{"name", "sinter"},
                          {"version", version()},
                          {"extensions", {"binary_tensor_data", "model_repository"}}});
  }
  Response model_metadata(const Request& request) const {
    const auto found = models.find(request.parameters[0]);
    return json_response(metadata_of(found->name(), tensors_of(*found).plan()));
  }
  Response model_ready(const Request& request) const {
    const ModelState state = models.find(request.parameters[0])->state();
    if (!state.is_ready) throw ApiError(503, state.reason);
    return text_response("{}");
  }
  Response index() const {
    ordered_json all = ordered_json::array();
    const auto add = [&](const std::string& name, const ModelState& state) {
      ordered_json one = {
          {"name", name}, {"version", "1"}, {"state", state.is_ready ? "READY" : "UNAVAILABLE"}};
      if (!state.is_ready) one["reason"] = state.reason;
      all.push_back(std::move(one));
    };
    for (const auto& each : models.all()) add(each->name(), each->state());
    for (const std::string& name : models.unloaded()) add(name, {false, "unloaded"});
    return json_response(all);
  }

  Response infer(const Request& request) {
    constexpr const char* kHeader = "inference-header-content-length";
    if (draining) throw ApiError(503, "the server is being shut down");
    const auto model = models.find(request.parameters[0]);
    TensorModel& tensors = tensors_of(*model);
    std::size_t json_bytes = request.body.size();
    if (request.has(kHeader)) {
      const std::string_view said = request.header(kHeader);
      const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), json_bytes);
      if (error != std::errc() || end != said.data() + said.size())
        throw ApiError(400, "Inference-Header-Content-Length is no number");
    }
    auto parsed = std::make_shared<InferenceRequest>(
        parse_inference(request.body, json_bytes, tensors.plan()));
    return server.later([model, parsed, &tensors] {
      auto outputs = tensors.infer(parsed->inputs);
      return inference_response(std::make_shared<InferenceAnswer>(
          *parsed, model->name(), tensors.plan(), std::move(outputs)));
    });
  }

  // OpenAI's API.

  Response response_of(ApiAnswer answer) {
    if (auto* whole = std::get_if<WholeAnswer>(&answer)) return response_of(std::move(*whole));
    if (auto* later = std::get_if<LaterAnswer>(&answer))
      return server.later([later = std::move(*later)] { return response_of(later()); });
    return call_response(std::get<std::shared_ptr<AnswerCall>>(std::move(answer)));
  }
  static Response response_of(WholeAnswer answer) {
    return {.type = std::move(answer.content_type), .body = std::move(answer.body)};
  }
  Response listen(const Request& request, const SpeechRoute& route) {
    if (draining) throw ApiError(503, "the server is being shut down");
    const auto form = parse_multipart(request.header("content-type"), request.body);
    SpeechAnswer said = transcribe(form, models, route.translate);
    return {.type = std::move(said.content_type), .body = std::move(said.text)};
  }
};

HttpServer::HttpServer(ModelRegistry& models, HttpOptions options)
    : impl_(std::make_unique<Impl>(models, std::move(options))) {}
HttpServer::~HttpServer() = default;

int HttpServer::bind() {
  const HttpOptions& options = impl_->options;
  const auto port = impl_->server.bind(options.host, options.port);
  if (!port)
    throw usage_error(
        "cannot listen at {}:{}: the address is not this machine's, or the port is "
        "taken (--port 0 finds a free one)",
        options.host, options.port);
  return *port;
}

void HttpServer::run() { impl_->server.run(); }
void HttpServer::begin_drain() { impl_->draining = true; }
std::int64_t HttpServer::answering() const { return impl_->server.figures().answering; }
void HttpServer::abort() {
  impl_->draining = true;
  impl_->server.abort();
}
void HttpServer::stop() { impl_->server.stop(); }

}  // namespace sinter::tools
