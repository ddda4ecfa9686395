// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/add_serve.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sinter/log.h>
#include <sys/resource.h>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "runtime/sandbox/sandbox.h"
#include "tools/cli/session_options.h"
#include "tools/cli/signature_option.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/generate/prompt.h"
#include "tools/serve/end_on_signals.h"
#include "tools/serve/grpc/grpc_server.h"
#include "tools/serve/http_server.h"
#include "tools/serve/requests_file.h"

namespace sinter::tools {
namespace {

/// Calls of gRPC, and of HTTP those for tensors, that wait for a session at once.
constexpr int kGrpcThreads = 256;

struct ServeArguments {
  std::vector<std::string> plans, tokenizers, templates, drafts, forms, encoders, starts;
  std::string key_file, cache_memory, state_memory;
  std::optional<std::int64_t> grpc_port;  // none: no gRPC
  std::int64_t port = 8000, connections = 16384, body_bytes = 64 << 20, drain_seconds = 30,
               idle_seconds = 75;
  std::int64_t sequences = 0, sessions = 1, batch_rows = 1;
  double batch_delay_ms = 1;
  bool no_generation_config = false;
  HttpOptions http;
  std::string pooling;  // as the model says, else the mean
  ServedModelOptions model;
  ModelTexts models;
};

/// "NAME=FILE", or a file or folder whose name without its ending is the name.
std::pair<std::string, std::string> named(const std::string& text) {
  const auto equals = text.find('=');
  if (equals != std::string::npos && text.find('/') > equals)
    return {text.substr(0, equals), text.substr(equals + 1)};
  std::filesystem::path path(text);
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  std::error_code none;
  const bool is_folder = std::filesystem::is_directory(path, none) || HubName::parse(text);
  return {(is_folder ? path.filename() : path.stem()).string(), text};
}

std::vector<std::string> keys_of(const std::string& path) {
  std::vector<std::string> keys;
  if (path.empty()) return keys;
  std::ifstream file = files::open_stream(path);
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
      drafts(options.drafts), forms(options.forms), encoders(options.encoders),
      starts(options.starts);
  for (const std::string& text : options.plans) {
    const auto [name, plan] = named(text);
    ServedModelOptions model = options.model;
    model.plan = plan;
    model.sequences = static_cast<int>(options.sequences);
    if (!options.cache_memory.empty())
      model.cache_bytes =
          with_context("--cache-memory", [&] { return parse_bytes(options.cache_memory); });
    if (!options.state_memory.empty())
      model.state_bytes =
          with_context("--state-memory", [&] { return parse_bytes(options.state_memory); });
    model.tensors.sessions = static_cast<int>(options.sessions);
    model.tensors.batch_rows = options.batch_rows;
    model.tensors.batch_delay =
        std::chrono::microseconds(std::llround(options.batch_delay_ms * 1000));
    model.pooling = options.pooling;
    model.tokenizer = tokenizers.of(name);
    model.chat_template = templates.of(name);
    model.draft = drafts.of(name);
    model.tool_form = forms.of(name);
    model.encoder = encoders.of(name);
    model.start = starts.of(name);
    model.generation_config = !options.no_generation_config;
    model.open = [plan, encoder = model.encoder, draft = model.draft, &options, &console] {
      const auto open = [&](const std::string& text) {
        return open_model(text, options.models, options.model.load, console, ModelUse::kAny);
      };
      OpenModel opened = open(plan);
      ServedPlans plans{.plan = opened.plan,
                        .encoder = opened.encoder,
                        .tokenizer = opened.tokenizer,
                        .folder = opened.folder};
      if (!encoder.empty()) plans.encoder = open(encoder).plan;
      if (!draft.empty()) plans.draft = open(draft).plan;
      plans.in_use = opened.in_use;
      return plans;
    };
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

/// As many files as the system lets this process have open. How many connections they are for.
std::size_t connections_of_files(std::size_t wanted, const Console& console) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_NOFILE, &files);
  constexpr rlim_t kOthers = 128;  // models, libraries, gRPC
  const rlim_t most = files.rlim_cur > 2 * kOthers ? files.rlim_cur - kOthers : kOthers;
  if (files.rlim_cur == RLIM_INFINITY || wanted <= most) return wanted;
  console.note(
      fmt::format("{} connections at most, not {}: 'ulimit -Hn' lets the process have {} "
                  "open files",
                  most, wanted, files.rlim_cur));
  return most;
}

/// Drains models behind the thread that looks whether they are.
class ModelDrain {
 public:
  explicit ModelDrain(ModelRegistry& models) : models_(models) {}
  bool is_done() {
    if (!drained_.valid()) {
      std::packaged_task<void()> task([this] { models_.drain(); });
      drained_ = task.get_future();
      thread_ = std::thread(std::move(task));
    }
    return drained_.wait_for(std::chrono::milliseconds(0)) == std::future_status::ready;
  }
  ~ModelDrain() {
    if (thread_.joinable()) thread_.join();
  }
  ModelDrain(const ModelDrain&) = delete;
  ModelDrain& operator=(const ModelDrain&) = delete;

 private:
  ModelRegistry& models_;
  std::future<void> drained_;
  std::thread thread_;
};

/// While it lives, what the library warns of, and steps that fail, are lines on stderr.
class LogOnConsole {
 public:
  explicit LogOnConsole(const Console& console) {
    set_logger(
        [&console](LogLevel level, std::string_view message) {
          if (level == LogLevel::kError)
            Console().note(fmt::format("error: {}", message));  // also if it is to be quiet
          else
            console.note(message);
        },
        LogLevel::kWarning);
  }
  ~LogOnConsole() { set_logger({}); }
  LogOnConsole(const LogOnConsole&) = delete;
  LogOnConsole& operator=(const LogOnConsole&) = delete;
};

int run_serve(ServeArguments options, FindGrpc find_grpc, const Console& console) {
  if (options.grpc_port && find_grpc == nullptr)
    throw usage_error(
        "--grpc-port: the Python package's command is built without gRPC. The same tensors are "
        "answered over HTTP; the command that tools/build makes (build/bin/sinter) has gRPC, too");
  const StartGrpcServer start_grpc = options.grpc_port ? find_grpc() : nullptr;
  EndOnSignals signals;
  const LogOnConsole log(console);
  HttpOptions http = options.http;
  http.port = static_cast<int>(options.port);
  http.limits.connections =
      connections_of_files(static_cast<std::size_t>(options.connections), console);
  http.limits.body_bytes = static_cast<std::size_t>(options.body_bytes);
  http.limits.all_body_bytes = std::max(http.limits.all_body_bytes, 2 * http.limits.body_bytes);
  http.limits.idle_time = std::chrono::seconds(options.idle_seconds);
  http.limits.workers = std::max(8, 2 * static_cast<int>(std::thread::hardware_concurrency()));
  http.limits.waiters = kGrpcThreads;
  http.api_keys = keys_of(options.key_file);
  {
    ModelRegistry models;
    load_models(options, models, console);
    signals.is_loaded();
    HttpServer server(models, http);
    const int port = server.bind();
    const bool is_v6 = http.host.find(':') != std::string::npos;
    const std::string address =
        fmt::format("http://{}:{}", is_v6 ? fmt::format("[{}]", http.host) : http.host, port);
    std::unique_ptr<GrpcServer> grpc;
    if (options.grpc_port)
      grpc = start_grpc(models, GrpcOptions{http.host, static_cast<int>(*options.grpc_port),
                                            http.api_keys, kGrpcThreads, http.limits.body_bytes});
    console.print("listening at {}", address);
    if (grpc) console.print("gRPC at {}:{}", http.host, grpc->port());
    if (console.json) {
      nlohmann::ordered_json result = {{"address", address}, {"port", port}};
      if (grpc) result["grpc_port"] = grpc->port();
      console.result(result);
    }
    std::fflush(stdout);
    ModelDrain models_drain(models);
    const auto drain = [&] {
      server.begin_drain();
      if (grpc != nullptr) grpc->begin_drain();
      return models_drain.is_done() && server.answering() == 0 &&
             (grpc == nullptr || grpc->answering() == 0);
    };
    const auto abort = [&] {
      // Questions about the server that come at this moment have their answers, too.
      constexpr std::chrono::milliseconds kMoment{10};
      server.stop();
      for (int i = 0; i < 10 && server.answering() > 0; ++i) std::this_thread::sleep_for(kMoment);
      server.abort();
      if (grpc != nullptr) grpc->abort();
    };
    signals.run({.serve = [&] { server.run(); },
                 .drain = drain,
                 .abort = abort,
                 .note = [&](const char* text) { console.note(text); }},
                std::chrono::seconds(options.drain_seconds));
  }
  signals.has_ended();
  return 0;
}

}  // namespace

void add_serve(Cli& cli, FindGrpc find_grpc, MakeSpeechModel make_speech,
               MakeVisionModel make_vision) {
  cli.run_requests = run_requests_file;
  auto options = std::make_shared<ServeArguments>();
  options->model.make_speech = make_speech;
  options->model.make_vision = make_vision;
  auto* verb = cli.app.add_subcommand(
      "serve", "Answer requests: texts as OpenAI's API, tensors as KServe's; Ctrl-C drains");
  verb->add_option(
          "model", options->plans,
          "Models: MODEL or NAME=MODEL, a plan, ONNX or GGUF file, Hugging Face folder, or "
          "name in the hub's cache (org/name)")
      ->required();
  verb->group("Models");
  verb->add_option(
      "--tokenizer FILE", options->tokenizers,
      "tokenizer.json of all models, or NAME=FILE of one (default: the model's); without "
      "one prompts and answers are token ids");
  verb->add_option(
      "--chat-template FILE", options->templates,
      "tokenizer_config.json or a Jinja file, of all models or NAME=FILE (default: that "
      "beside the tokenizer)");
  verb->add_option("--tool-call-form FORM", options->forms,
                   "How the model spells calls of tools (NAME=FORM: of one model; default: as its "
                   "chat template shows): " +
                       tool_form_names());
  verb->add_flag("--no-generation-config", options->no_generation_config,
                 "Defaults of draws and the tokens that end a text are not those of "
                 "generation_config.json beside the tokenizer");
  verb->add_option("--encoder PLAN", options->encoders,
                   "Plan of the encoder of a model whose decoder is served (NAME=FILE: of one "
                   "model): Whisper's hears /v1/audio/transcriptions, others read prompts");
  verb->add_option("--start TOKEN", options->starts,
                   "First token, id or name, of texts behind an encoder that reads prompts "
                   "(NAME=TOKEN: of one model; default: decoder_start_token_id of "
                   "generation_config.json)");
  verb->group("Addresses and access");
  verb->add_option("--host ADDRESS", options->http.host,
                   "Address to listen at; 0.0.0.0: all of this machine")
      ->capture_default_str();
  verb->add_option("--port N", options->port, "Port; 0: one that is free")
      ->capture_default_str()
      ->check_range(0, 65535);
  verb->add_option(
          "--grpc-port N", options->grpc_port,
          "Port for tensors over gRPC (KServe v2's GRPCInferenceService), too; 0: one that "
          "is free")
      ->check_range(0, 65535);
  verb->add_option("--api-key-file FILE", options->key_file,
                   "File of keys, one a line: requests need one ('Authorization: Bearer KEY')");
  verb->group("Work at once");
  verb->add_option("--sessions N", options->sessions,
                   "Sessions of a model that generates no text: runs at once")
      ->capture_default_str()
      ->check_range(1, 256);
  verb->add_option("--batch-rows N", options->batch_rows,
                   "The most rows that requests of a model that generates no text run at once, if "
                   "they differ along the first dimension alone (of an encoder with an "
                   "attention_mask in length, too); 1: each by itself")
      ->capture_default_str()
      ->check_range(1, 1 << 20);
  verb->add_option("--batch-delay-ms MS", options->batch_delay_ms,
                   "How long a request waits for others to run with, in milliseconds")
      ->capture_default_str();
  verb->add_option("--pooling KIND", options->pooling,
                   "Vectors of texts (/v1/embeddings) from vectors of tokens: their mean, or the "
                   "first token's, .. (default: as the model's folder says, else mean)")
      ->check_one_of(pooling_options());
  verb->add_option("--sequences N", options->sequences,
                   "Sequences of a decoder at once (default: as many as the plan takes)")
      ->check_range(1, 4096);
  verb->add_option("--draft PLAN", options->drafts,
                   "Plan of a smaller model of compile --serve with the same tokens, which guesses "
                   "what this one checks (NAME=FILE: of one model); texts stay as they are");
  verb->add_option("--draft-tokens N", options->model.draft_tokens,
                   "Tokens that are guessed in a step for each of a few sequences: by --draft "
                   "(default: 4), else from what stood before in the text (default: none)")
      ->check_range(1, 16);
  verb->add_option("--cache-memory BYTES", options->cache_memory,
                   "Memory of the caches of a plan of compile --serve, as 8G; by default most of "
                   "what a GPU has left, 1G of the host's");
  verb->add_option("--state-memory BYTES", options->state_memory,
                   "Of models with states of fixed size (state-space layers, linear attention): "
                   "memory of states kept behind prompts, which others begin with, and for guesses "
                   "(default: a quarter of what a GPU has left, 256M of the host's)");
  verb->add_option("--context N", options->model.context,
                   "Most tokens of a text and its prompt (default: as many as the plan has)")
      ->check_positive();
  verb->add_option("--waiting N", options->model.waiting,
                   "Requests of a model that wait; more are refused (429)")
      ->capture_default_str()
      ->check_range(1, 1 << 20);
  verb->group("Connections");
  verb->add_option("--connections N", options->connections,
                   "Connections of HTTP that are open at once; then the one that is idle longest "
                   "makes room. Each is a file: 'ulimit -Hn' may allow fewer")
      ->capture_default_str()
      ->check_range(1, 1 << 20);
  verb->add_option("--idle-seconds SECONDS", options->idle_seconds,
                   "How long a connection of HTTP is kept between requests")
      ->capture_default_str()
      ->check_range(1, 86400);
  verb->add_option("--max-body BYTES", options->body_bytes,
                   "Bytes of a request's body at most, without the coding of chunks")
      ->capture_default_str()
      ->check_range(1024, 1 << 30);
  verb->group("Addresses and access");
  verb->add_option("--allow-host NAME", options->http.hosts,
                   "Further names that clients ask this server by, beside addresses, localhost, "
                   "--host and the machine's name; the page and what changes the server are not "
                   "answered to others");
  verb->add_option("--allow-origin ORIGIN", options->http.origins,
                   "Pages that may ask from a browser, as https://app.example (CORS); '*': all");
  verb->group("Connections");
  verb->add_option("--drain-seconds SECONDS", options->drain_seconds,
                   "How long requests that run may take to end after SIGTERM; two seconds later "
                   "the process has ended, whatever runs (with code 124 where something had to be "
                   "broken off by force)")
      ->capture_default_str()
      ->check_range(0, 86400);
  add_session_options(*verb, options->model.session);
  add_signature_option(*verb, options->model.load);
  verb->add_weight_budget(options->model.session.weight_budget);
  verb->add_threads_option();
  add_model_options(*verb, options->models, false);
  verb->example("sinter serve model.plan --port 8000", "tensors, as KServe's protocol");
  verb->example("sinter serve chat=decoder.plan --tokenizer tokenizer.json",
                "texts, as OpenAI's API");
  verb->callback([options, find_grpc, &console = cli.console, &exit_code = cli.exit_code] {
    sandbox::start();  // before there are threads
    exit_code = run_serve(*options, find_grpc, console);
  });
}

}  // namespace sinter::tools
