#include "tools/serve/add_serve.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/format_error.h"
#include "tools/cli/session_options.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/generate/prompt.h"
#include "tools/serve/grpc/grpc_server.h"
#include "tools/serve/http_server.h"

namespace sinter::tools {
namespace {

struct ServeArguments {
  std::vector<std::string> plans, tokenizers, templates, drafts;
  std::string key_file, cache_memory;
  std::optional<std::int64_t> grpc_port;  // none: no gRPC
  std::int64_t port = 8000, connections = 256, body_bytes = 64 << 20, drain_seconds = 30;
  std::int64_t sequences = 0, sessions = 1, batch_rows = 1;
  double batch_delay_ms = 1;
  HttpOptions http;
  std::string pooling = "mean";
  ServedModelOptions model;
};

/// "NAME=FILE", or a file whose name without its ending is the name.
std::pair<std::string, std::string> named(const std::string& text) {
  const auto equals = text.find('=');
  if (equals != std::string::npos && text.find('/') > equals)
    return {text.substr(0, equals), text.substr(equals + 1)};
  return {std::filesystem::path(text).stem().string(), text};
}

std::vector<std::string> keys_of(const std::string& path) {
  std::vector<std::string> keys;
  if (path.empty()) return keys;
  std::ifstream file(path);
  if (!file) throw usage_error("cannot read '{}'", path);
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) keys.push_back(line);
  if (keys.empty()) throw usage_error("'{}' has no key: write one a line", path);
  return keys;
}

/// "NAME=FILE" of one model, or a file of all.
class FilesOfModels {
 public:
  explicit FilesOfModels(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto [name, file] = named(text);
      files_[text.find('=') == std::string::npos ? "" : name] = file;
    }
  }
  std::string of(const std::string& name) const {
    const auto own = files_.find(name), all = files_.find("");
    return own != files_.end() ? own->second : all != files_.end() ? all->second : "";
  }

 private:
  std::map<std::string, std::string> files_;
};

void load_models(const ServeArguments& options, ModelRegistry& models, const Console& console) {
  const FilesOfModels tokenizers(options.tokenizers), templates(options.templates),
      drafts(options.drafts);
  for (const std::string& text : options.plans) {
    const auto [name, plan] = named(text);
    ServedModelOptions model = options.model;
    model.plan = plan;
    model.sequences = static_cast<int>(options.sequences);
    if (!options.cache_memory.empty())
      model.cache_bytes =
          with_context("--cache-memory", [&] { return parse_bytes(options.cache_memory); });
    model.tensors.sessions = static_cast<int>(options.sessions);
    model.tensors.batch_rows = options.batch_rows;
    model.tensors.batch_delay =
        std::chrono::microseconds(std::llround(options.batch_delay_ms * 1000));
    model.pooling = options.pooling == "first" ? Pooling::kFirst : Pooling::kMean;
    model.tokenizer = tokenizers.of(name);
    model.chat_template = templates.of(name);
    model.draft = drafts.of(name);
    const auto start = std::chrono::steady_clock::now();
    models.load(name, std::move(model));
    console.note(fmt::format(
        "'{}' loaded in {:.1f} s", name,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
    const auto loaded = models.find(name);
    if (loaded->engine() == nullptr || loaded->tokenizer() == nullptr) continue;
    if (const std::string note = lengths_note(*loaded->tokenizer()); !note.empty())
      console.note(fmt::format("'{}': {}", name, note));
  }
}

/// While it lives, SIGTERM and SIGINT end the server: a first one lets what runs end.
class EndOnSignals {
 public:
  EndOnSignals() {
    sigemptyset(&signals_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaddset(&signals_, kSignals[i]);
      // For threads that were there before, as NumPy's are: a signal may come to one of them.
      struct sigaction action {};
      action.sa_handler = [](int) { ++caught_; };
      action.sa_flags = SA_RESTART;
      sigaction(kSignals[i], &action, &handlers_[i]);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &previous_);  // threads that begin from here on, too
  }
  ~EndOnSignals() {
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      sigaction(kSignals[i], &handlers_[i], nullptr);
  }
  EndOnSignals(const EndOnSignals&) = delete;
  EndOnSignals& operator=(const EndOnSignals&) = delete;

  /// Runs the server until a signal has ended it.
  void run(HttpServer& server, GrpcServer* grpc, ModelRegistry& models, std::chrono::seconds limit,
           const Console& console) {
    std::jthread waits([&](const std::stop_token& stop) {
      while (!received())
        if (stop.stop_requested()) return;
      console.note("draining: requests that run may end; a second signal breaks them off");
      server.begin_drain();
      if (grpc != nullptr) grpc->begin_drain();
      auto drained = std::async(std::launch::async, [&] { models.drain(); });
      const auto deadline = std::chrono::steady_clock::now() + limit;
      while (drained.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready)
        if (received() || std::chrono::steady_clock::now() > deadline) server.abort();
      server.stop();
    });
    server.run();
  }

 private:
  static constexpr std::array<int, 2> kSignals = {SIGTERM, SIGINT};
  static inline std::atomic<int> caught_ = 0;

  /// Waits for 50 ms at most.
  bool received() const {
    const timespec wait{0, 50'000'000};
    return caught_.exchange(0) > 0 || sigtimedwait(&signals_, nullptr, &wait) > 0;
  }

  sigset_t signals_{}, previous_{};
  std::array<struct sigaction, 2> handlers_{};
};

int run_serve(ServeArguments options, StartGrpcServer start_grpc, const Console& console) {
  if (options.grpc_port && start_grpc == nullptr)
    throw usage_error(
        "--grpc-port: the Python package's command is built without gRPC. The same tensors are "
        "answered over HTTP; the command that tools/build makes (build/bin/sinter) has gRPC, too");
  EndOnSignals signals;
  options.http.port = static_cast<int>(options.port);
  options.http.connections = static_cast<int>(options.connections);
  options.http.body_bytes = static_cast<std::size_t>(options.body_bytes);
  options.http.api_keys = keys_of(options.key_file);
  ModelRegistry models;
  load_models(options, models, console);
  HttpServer server(models, options.http);
  const int port = server.bind();
  const std::string address = fmt::format("http://{}:{}", options.http.host, port);
  std::unique_ptr<GrpcServer> grpc;
  if (options.grpc_port)
    grpc = start_grpc(models, GrpcOptions{options.http.host, static_cast<int>(*options.grpc_port),
                                          options.http.api_keys, options.http.connections,
                                          options.http.body_bytes});
  console.print("listening at {}", address);
  if (grpc) console.print("gRPC at {}:{}", options.http.host, grpc->port());
  if (console.json) {
    nlohmann::ordered_json result = {{"address", address}, {"port", port}};
    if (grpc) result["grpc_port"] = grpc->port();
    console.result(result);
  }
  std::fflush(stdout);
  signals.run(server, grpc.get(), models, std::chrono::seconds(options.drain_seconds), console);
  return 0;
}

}  // namespace

void add_serve(Cli& cli, StartGrpcServer start_grpc) {
  auto options = std::make_shared<ServeArguments>();
  auto* verb = cli.app.add_subcommand(
      "serve", "Answer requests: texts as OpenAI's API, tensors as KServe's; Ctrl-C drains");
  verb->add_option("plan", options->plans, "Plans: FILE or NAME=FILE; several models may be served")
      ->required();
  verb->add_option("--tokenizer", options->tokenizers,
                   "tokenizer.json of all models, or NAME=FILE of one; without it prompts and "
                   "answers are token ids");
  verb->add_option("--chat-template", options->templates,
                   "tokenizer_config.json or a Jinja file, of all models or NAME=FILE (default: of "
                   "tokenizer_config.json beside the tokenizer)");
  verb->add_option("--host", options->http.host,
                   "Address to listen at; 0.0.0.0: all of this machine")
      ->capture_default_str();
  verb->add_option("--port", options->port, "Port; 0: one that is free")
      ->capture_default_str()
      ->check_range(0, 65535);
  verb->add_option(
          "--grpc-port", options->grpc_port,
          "Port for tensors over gRPC (KServe v2's GRPCInferenceService), too; 0: one that "
          "is free")
      ->check_range(0, 65535);
  verb->add_option("--api-key-file", options->key_file,
                   "File of keys, one a line: requests need one ('Authorization: Bearer KEY')");
  verb->add_option("--sessions", options->sessions,
                   "Sessions of a model that generates no text: runs at once")
      ->capture_default_str()
      ->check_range(1, 256);
  verb->add_option("--batch-rows", options->batch_rows,
                   "Requests of a model that generates no text run at once, up to so many rows, if "
                   "they differ along the first dimension alone (of an encoder with an "
                   "attention_mask in length, too); 1: each by itself")
      ->capture_default_str()
      ->check_range(1, 1 << 20);
  verb->add_option("--batch-delay-ms", options->batch_delay_ms,
                   "How long a request waits for others to run with, in milliseconds")
      ->capture_default_str();
  verb->add_option("--pooling", options->pooling,
                   "Vectors of texts (/v1/embeddings) from vectors of tokens: their mean, or the "
                   "first token's")
      ->capture_default_str()
      ->check_one_of({"mean", "first"});
  verb->add_option("--sequences", options->sequences,
                   "Sequences of a decoder at once; by default as many as a plan of "
                   "compile --serve takes, 8 of others")
      ->check_range(1, 4096);
  verb->add_option("--draft", options->drafts,
                   "Plan of a smaller model of compile --serve with the same tokens, which guesses "
                   "what this one checks (NAME=FILE: of one model); texts stay as they are");
  verb->add_option("--draft-tokens", options->model.draft_tokens,
                   "Tokens that are guessed in a step for each of a few sequences: by --draft "
                   "(default: 4), else from what stood before in the text (default: none)")
      ->check_range(1, 16);
  verb->add_option("--cache-memory", options->cache_memory,
                   "Memory of the caches of a plan of compile --serve, as 8G; by default most of "
                   "what a GPU has left, 1G of the host's");
  verb->add_option("--context", options->model.context,
                   "Tokens that caches of open size hold, for each sequence")
      ->check_positive();
  verb->add_option("--waiting", options->model.waiting,
                   "Requests of a model that wait; more are refused (429)")
      ->capture_default_str()
      ->check_range(1, 1 << 20);
  verb->add_option("--connections", options->connections, "Connections that are served at once")
      ->capture_default_str()
      ->check_range(1, 4096);
  verb->add_option("--max-body", options->body_bytes, "Bytes of a request's body at most")
      ->capture_default_str()
      ->check_range(1024, 1 << 30);
  verb->add_option("--drain-seconds", options->drain_seconds,
                   "How long requests that run may take to end after SIGTERM")
      ->capture_default_str()
      ->check_range(0, 86400);
  add_session_options(*verb, options->model.session);
  verb->add_weight_budget(options->model.session.weight_budget);
  verb->add_threads_option();
  verb->callback([options, start_grpc, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run_serve(*options, start_grpc, console);
  });
}

}  // namespace sinter::tools
