#include "tools/serve/http_server.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <httplib.h>
#include <sinter/sinter.h>

#include "runtime/format_error.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/api_key.h"
#include "tools/serve/api/completion_call.h"
#include "tools/serve/api/embedding_request.h"
#include "tools/serve/api/inference_request.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/metrics.h"
#include "tools/serve/page.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

/// How long a connection is silent at most while a text is computed: what is written then finds out
/// whether the client is still there.
constexpr milliseconds kSilence{250};
constexpr const char* kJson = "application/json";

std::string new_id() {
  static std::atomic<std::uint64_t> number = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  return fmt::format("cmpl-{:016x}", number.fetch_add(1));
}

/// Pieces as server-sent events. False: the client is gone, or there is no more.
bool stream_piece(CompletionCall& call, httplib::DataSink& sink) {
  const auto send = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
  const auto piece = call.next(kSilence);
  if (!piece) return send(": \n\n");
  if (!send(fmt::format("data: {}\n\n", dump(*piece)))) return false;
  if (!call.is_done()) return true;
  if (!call.error().empty())
    send(fmt::format("data: {}\n\n", dump(ApiError(500, call.error()).body())));
  else if (call.request().include_usage)
    send(fmt::format("data: {}\n\n", dump(call.usage_piece())));
  if (!send("data: [DONE]\n\n")) return false;
  sink.done();
  return true;
}

/// The whole answer; JSON may begin with spaces, which keep the connection busy until then.
bool whole_answer(CompletionCall& call, httplib::DataSink& sink) {
  const auto send = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
  if (!call.next(kSilence)) return send(" ");
  if (!call.is_done()) return true;
  if (!send(dump(call.error().empty() ? call.answer() : ApiError(500, call.error()).body())))
    return false;
  sink.done();
  return true;
}

/// A thread for each connection that is served; counts those that wait for one.
class Connections final : public httplib::TaskQueue {
 public:
  Connections(int threads, std::atomic<std::int64_t>& waiting)
      : threads_(static_cast<std::size_t>(threads)), waiting_(waiting) {}

  void enqueue(std::function<void()> serve) override {
    ++waiting_;
    threads_.enqueue([this, serve = std::move(serve)] {
      --waiting_;
      serve();
    });
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  httplib::ThreadPool threads_;
  std::atomic<std::int64_t>& waiting_;
};

}  // namespace

struct HttpServer::Impl {
  Impl(ModelRegistry& registry, HttpOptions given) : models(registry), options(std::move(given)) {}

  ModelRegistry& models;
  HttpOptions options;
  httplib::Server http;
  socket_t listener = INVALID_SOCKET;
  std::atomic<bool> draining = false, aborting = false;
  std::atomic<std::int64_t> waiting_connections = 0;
  std::atomic<bool> began = false, ended = false, stopping = false;  // of run()

  void add_routes() {
    http.new_task_queue = [this] {
      return new Connections(options.connections, waiting_connections);
    };
    // The library's own options let several servers share a port without a word.
    http.set_socket_options([this](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      listener = socket;
    });
    // The library's five requests are few for clients that keep their connection. Its five seconds
    // for idle ones are those of OpenAI's package: a request that is sent at that moment would meet
    // a closed connection. When the server ends it waits as long for idle ones, so that more costs
    // too.
    constexpr std::time_t kIdleSeconds = 8;
    http.set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
    http.set_keep_alive_timeout(kIdleSeconds);
    // Where others wait, a client has one answer and comes again behind them.
    http.set_post_routing_handler([this](const httplib::Request&, httplib::Response& answer) {
      if (waiting_connections == 0) return;
      answer.headers.erase("Keep-Alive");
      answer.headers.erase("Connection");
      answer.set_header("Connection", "close");
    });
    http.set_payload_max_length(options.body_bytes);
    http.set_tcp_nodelay(true);
    http.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& answer) {
          return admit(request, answer);
        });
    http.set_exception_handler(
        [](const httplib::Request& request, httplib::Response& answer, std::exception_ptr error) {
          try {
            std::rethrow_exception(std::move(error));
          } catch (const std::exception& what) {
            fail(request.path, answer, ApiError(500, what.what()));
          } catch (...) {
            fail(request.path, answer, ApiError(500, "a defect of the server"));
          }
        });
    // What the library answers itself.
    http.set_error_handler([](const httplib::Request& request, httplib::Response& answer) {
      if (!answer.body.empty()) return;
      if (answer.status == 404)
        fail(request.path, answer,
             ApiError(404, fmt::format("there is no {} {}: tools/serve/README.md lists "
                                       "what there is",
                                       request.method, request.path)));
      else if (answer.status == 413)
        fail(request.path, answer, ApiError(413, "the body is too large: see --max-body"));
      else
        fail(request.path, answer,
             ApiError(answer.status, "the request is no HTTP that is understood"));
    });
    get("/", [](const httplib::Request&, httplib::Response& answer) {
      answer.set_content(std::string(serve_page_files().front().text), "text/html; charset=utf-8");
    });
    const auto health = [this](const httplib::Request&, httplib::Response& answer) {
      if (draining) throw ApiError(503, "the server is being shut down");
      answer.set_content(R"({"status":"ok"})", kJson);
    };
    get("/health", health);
    get("/v2/health/ready", health);
    get("/v2/health/live", [](const httplib::Request&, httplib::Response& answer) {
      answer.set_content(R"({"status":"ok"})", kJson);
    });
    get("/metrics", [this](const httplib::Request&, httplib::Response& answer) {
      answer.set_content(metrics_text(models), "text/plain; version=0.0.4");
    });
    get("/v1/models", [this](const httplib::Request&, httplib::Response& answer) {
      ordered_json list = ordered_json::array();
      for (const auto& model : models.all()) list.push_back(json_of(*model));
      answer.set_content(dump({{"object", "list"}, {"data", std::move(list)}}), kJson);
    });
    get(R"(/v1/models/([^/]+))",
        [this](const httplib::Request& request, httplib::Response& answer) {
          answer.set_content(dump(json_of(*models.find(request.matches[1]))), kJson);
        });
    post("/v1/completions", [this](const httplib::Request& request, httplib::Response& answer) {
      complete(request, answer, parse_completion);
    });
    post("/v1/chat/completions",
         [this](const httplib::Request& request, httplib::Response& answer) {
           complete(request, answer, parse_chat);
         });
    post("/v1/embeddings", [this](const httplib::Request& request, httplib::Response& answer) {
      embed(request, answer);
    });
    add_inference_routes();
    post(R"(/v2/repository/models/([^/]+)/load)",
         [this](const httplib::Request& request, httplib::Response& answer) {
           models.reload(request.matches[1]);
           answer.set_content("{}", kJson);
         });
    post(R"(/v2/repository/models/([^/]+)/unload)",
         [this](const httplib::Request& request, httplib::Response& answer) {
           models.unload(request.matches[1]);
           answer.set_content("{}", kJson);
         });
  }

  /// The Open Inference Protocol (KServe v2).
  void add_inference_routes() {
    get("/v2", [](const httplib::Request&, httplib::Response& answer) {
      answer.set_content(dump({{"name", "sinter"},
                               {"version", version()},
                               {"extensions", {"binary_tensor_data", "model_repository"}}}),
                         kJson);
    });
    const std::string model = R"(/v2/models/([^/]+)(?:/versions/1)?)";
    get(model, [this](const httplib::Request& request, httplib::Response& answer) {
      const auto found = models.find(request.matches[1]);
      answer.set_content(dump(metadata_of(found->name(), tensors_of(*found).plan())), kJson);
    });
    get(model + "/ready", [this](const httplib::Request& request, httplib::Response& answer) {
      models.find(request.matches[1]);
      answer.set_content("{}", kJson);
    });
    post("/v2/repository/index", [this](const httplib::Request&, httplib::Response& answer) {
      ordered_json list = ordered_json::array();
      for (const auto& each : models.all())
        list.push_back({{"name", each->name()}, {"version", "1"}, {"state", "READY"}});
      answer.set_content(dump(list), kJson);
    });
    post(model + "/infer", [this](const httplib::Request& request, httplib::Response& answer) {
      infer(request, answer);
    });
  }

  static TensorModel& tensors_of(const ServedModel& model) {
    if (model.tensors() == nullptr)
      throw ApiError(400, fmt::format("'{}' generates text: POST /v1/completions", model.name()));
    return *model.tensors();
  }

  void infer(const httplib::Request& request, httplib::Response& answer) {
    constexpr const char* kHeader = "Inference-Header-Content-Length";
    if (draining) throw ApiError(503, "the server is being shut down");
    const auto model = models.find(request.matches[1]);
    TensorModel& tensors = tensors_of(*model);
    std::size_t json_bytes = request.body.size();
    if (request.has_header(kHeader)) {
      const std::string said = request.get_header_value(kHeader);
      const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), json_bytes);
      if (error != std::errc() || end != said.data() + said.size())
        throw ApiError(400, fmt::format("{} is no number", kHeader));
    }
    const InferenceRequest parsed = parse_inference(request.body, json_bytes, tensors.plan());
    const InferenceAnswer written =
        write_inference(parsed, model->name(), tensors.plan(), tensors.infer(parsed.inputs));
    if (written.json_bytes > 0) answer.set_header(kHeader, std::to_string(written.json_bytes));
    answer.set_content(written.body, written.json_bytes > 0 ? "application/octet-stream" : kJson);
  }

  void embed(const httplib::Request& request, httplib::Response& answer) {
    if (draining) throw ApiError(503, "the server is being shut down");
    const auto body = parse_object(request.body);
    const auto model = models.find(model_of(body));
    if (model->embedder() == nullptr)
      throw ApiError(400, fmt::format("'{}' is no encoder of texts: it does not take input_ids "
                                      "alone, or gives no vectors",
                                      model->name()));
    const EmbeddingRequest parsed = parse_embedding(body, *model);
    answer.set_content(
        dump(embedding_answer(parsed, model->name(), model->embedder()->embed(parsed.texts))),
        kJson);
  }

  static ordered_json json_of(const ServedModel& model) {
    return {{"id", model.name()},
            {"object", "model"},
            {"created", model.created()},
            {"owned_by", "sinter"}};
  }

  /// As the API that `path` belongs to says errors.
  static void fail(const std::string& path, httplib::Response& answer, const ApiError& error) {
    answer.status = error.status();
    if (error.status() == 429 || error.status() == 503) answer.set_header("Retry-After", "1");
    answer.set_content(
        dump(path.starts_with("/v2") ? ordered_json{{"error", error.what()}} : error.body()),
        kJson);
  }

  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;
  static Handler answering(Handler handler) {
    return
        [handler = std::move(handler)](const httplib::Request& request, httplib::Response& answer) {
          try {
            handler(request, answer);
          } catch (const ApiError& error) {
            fail(request.path, answer, error);
          } catch (const Error& error) {
            fail(request.path, answer, ApiError::of(error));
          }
        };
  }
  void get(const std::string& path, Handler handler) {
    http.Get(path, answering(std::move(handler)));
  }
  void post(const std::string& path, Handler handler) {
    http.Post(path, answering(std::move(handler)));
  }

  /// Refuses who has no key, where there are keys.
  httplib::Server::HandlerResponse admit(const httplib::Request& request,
                                         httplib::Response& answer) const {
    const bool is_open =
        request.path == "/" || request.path == "/health" || request.path.starts_with("/v2/health/");
    if (is_open || is_admitted(options.api_keys, request.get_header_value("Authorization")))
      return httplib::Server::HandlerResponse::Unhandled;
    fail(request.path, answer, ApiError(401, kNoKey));
    return httplib::Server::HandlerResponse::Handled;
  }

  using Parse = CompletionRequest (*)(const nlohmann::json& body, std::string_view text,
                                      const ServedModel& model);
  void complete(const httplib::Request& request, httplib::Response& answer, Parse parse) {
    if (draining) throw ApiError(503, "the server is being shut down");
    const auto body = parse_object(request.body);
    auto model = models.find(model_of(body));
    if (model->engine() == nullptr)
      throw ApiError(
          400, fmt::format("'{0}' generates no text: POST /v2/models/{0}/infer", model->name()));
    auto parsed = parse(body, request.body, *model);
    auto call = std::make_shared<CompletionCall>(std::move(model), std::move(parsed), new_id());
    if (call->request().stream) {
      answer.set_header("Cache-Control", "no-cache");
      answer.set_chunked_content_provider("text/event-stream",
                                          [this, call](std::size_t, httplib::DataSink& sink) {
                                            return !aborting && stream_piece(*call, sink);
                                          });
    } else {
      answer.set_chunked_content_provider(kJson,
                                          [this, call](std::size_t, httplib::DataSink& sink) {
                                            return !aborting && whole_answer(*call, sink);
                                          });
    }
  }
};

HttpServer::HttpServer(ModelRegistry& models, HttpOptions options)
    : impl_(std::make_unique<Impl>(models, std::move(options))) {
  impl_->add_routes();
}
HttpServer::~HttpServer() = default;

int HttpServer::bind() {
  auto& [host, port, keys, connections, bytes] = impl_->options;
  const bool is_bound = port == 0 ? (port = impl_->http.bind_to_any_port(host)) > 0
                                  : impl_->http.bind_to_port(host, port);
  if (!is_bound)
    throw usage_error(
        "cannot listen at {}:{}: the address is not this machine's, or the port is "
        "taken (--port 0 finds a free one)",
        host, port);
  // The library lets five clients wait to be accepted: those of a burst beyond would try again
  // after a second, or be reset.
  ::listen(impl_->listener, SOMAXCONN);
  return port;
}

void HttpServer::run() {
  impl_->began = true;
  if (!impl_->stopping) impl_->http.listen_after_bind();
  impl_->ended = true;
}
void HttpServer::begin_drain() { impl_->draining = true; }
void HttpServer::abort() { impl_->draining = impl_->aborting = true; }
void HttpServer::stop() {
  impl_->stopping = true;
  // The library does not stop what is about to listen.
  for (; impl_->began && !impl_->ended; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    impl_->http.stop();
}

}  // namespace sinter::tools
