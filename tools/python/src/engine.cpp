// SPDX-License-Identifier: Apache-2.0
// pysinter._core.Engine: many requests over a plan of compile(serve=..).
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sinter/engine.h>

#include "tools/generate/token_text.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/struct.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

/// A Python object that threads without the GIL may release.
std::shared_ptr<nb::object> shared(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            const GilIfOpen acquire;
            if (!acquire) return;
            delete held;
          }};
}

nb::list logprobs_of(const GenerationOutput& output) {
  nb::list all;
  for (const TokenLogprobs& each : output.logprobs) {
    nb::list likeliest;
    for (const auto& [token, logprob] : each.likeliest)
      likeliest.append(nb::make_tuple(token, logprob));
    all.append(nb::make_tuple(each.logprob, likeliest));
  }
  return all;
}

Constraint constraint_of(const std::string& kind, std::string text,
                         std::vector<std::string> choices) {
  using Kind = Constraint::Kind;
  for (const auto& [name, value] :
       {std::pair("json_object", Kind::kJsonObject), std::pair("json_schema", Kind::kJsonSchema),
        std::pair("regex", Kind::kRegex), std::pair("grammar", Kind::kGrammar),
        std::pair("choice", Kind::kChoice)})
    if (kind == name) return {value, std::move(text), std::move(choices)};
  throw Error(ErrorCode::kUsage, "there is no constraint of the kind '" + kind + "'");
}

class EngineObject {
 public:
  EngineObject(nb::object plan, nb::object draft, EngineOptions options,
               const std::optional<std::string>& tokenizer) {
    const auto& object = nb::cast<const PlanObject&>(plan);
    const auto* guesser = draft.is_none() ? nullptr : &nb::cast<const PlanObject&>(draft);
    object.check_process();
    if (guesser != nullptr) guesser->check_process();
    process_ = process_generation();
    GilReleased release;
    if (tokenizer) {
      tokenizer_.emplace(tools::Tokenizer::parse(*tokenizer));
      tools::give_texts(*tokenizer_, options);
    }
    const SessionOptions session = session_options(object.options(), false);
    engine_ =
        guesser == nullptr
            ? std::make_shared<Engine>(object.plan(), std::move(options), session)
            : std::make_shared<Engine>(object.plan(), guesser->plan(), std::move(options), session);
    const std::lock_guard lock(all().mutex);
    all().engines.insert(this);
  }
  EngineObject(const EngineObject&) = delete;
  EngineObject& operator=(const EngineObject&) = delete;
  ~EngineObject() {
    close();
    const std::lock_guard lock(all().mutex);
    all().engines.erase(this);
  }

  /// At the interpreter's exit, with the GIL held: afterwards no engine's thread calls back.
  static void close_all() {
    std::vector<std::shared_ptr<Engine>> open;
    {
      const std::lock_guard lock(all().mutex);
      for (EngineObject* one : all().engines)
        if (auto engine = one->take()) open.push_back(std::move(engine));
    }
    GilReleased release;
    open.clear();
  }

  RequestId submit(const std::vector<TokenId>& prompt, SamplingParameters sampling, int priority,
                   std::optional<double> timeout, nb::object callback) {
    GenerationRequest request;
    request.prompt = prompt;
    request.sampling = std::move(sampling);
    request.priority = priority;
    if (timeout)
      request.deadline =
          EngineTime::clock::now() +
          std::chrono::duration_cast<EngineTime::duration>(std::chrono::duration<double>(*timeout));
    Engine::Callback call = [target = shared(std::move(callback))](const GenerationOutput& output) {
      const GilIfOpen acquire;
      if (!acquire) throw std::runtime_error("the interpreter has ended");
      try {
        (*target)(output.request, output.sample, output.tokens, text(output.text),
                  logprobs_of(output), std::string(to_string(output.finish)), text(output.error));
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("a callback of pysinter.Engine");
        throw std::runtime_error("the callback raised an exception");  // cancels the request
      }
    };
    GilReleased release;
    return open()->submit(std::move(request), std::move(call));
  }
  void cancel(RequestId request) {
    GilReleased release;
    open()->cancel(request);
  }
  void drain() {
    GilReleased release;
    open()->drain();
  }
  nb::dict stats() {
    const EngineStats stats = open()->stats();
    nb::dict d;
    SINTER_ITEMS(stats, requests, finished, steps, prompt_tokens, generated_tokens, step_sequences,
                 step_tokens, padded_tokens, preemptions, prefix_tokens, prefix_hit_tokens,
                 draft_tokens, accepted_draft_tokens, failed_steps, idle_seconds, waiting_seconds,
                 waiting, running, blocks, used_blocks, cached_blocks, state_slots,
                 used_state_slots, kept_states);
    return d;
  }
  void close() {
    // The engine's thread may be waiting for the GIL in a callback.
    GilReleased release;
    take().reset();
  }

 private:
  struct All {
    std::mutex mutex;
    std::set<EngineObject*> engines;
  };
  static All& all() {
    static All* const one = new All;
    return *one;
  }

  /// Shares ownership: another thread may close the engine, which then ends after the last call.
  std::shared_ptr<Engine> open() const {
    if (process_ != process_generation())
      throw Error(ErrorCode::kUsage,
                  "this engine was made before fork(), and its thread is the parent's: make one in "
                  "the child, or start processes by 'spawn' "
                  "(multiprocessing.set_start_method('spawn'))");
    const std::lock_guard lock(mutex_);
    if (!engine_) throw Error(ErrorCode::kUsage, "the engine is closed");
    return engine_;
  }
  /// In a child process returns null and leaks the parent's object.
  std::shared_ptr<Engine> take() {
    if (process_ != process_generation()) {
      new std::shared_ptr<Engine>(std::move(engine_));
      return nullptr;
    }
    const std::lock_guard lock(mutex_);
    return std::move(engine_);
  }

  unsigned process_ = 0;
  std::optional<tools::Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  std::shared_ptr<Engine> engine_;  // last: must end before the members it reads
};

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<Constraint>(module, "Constraint")
      .def(
          "__init__",
          [](Constraint* self, const std::string& kind, std::string text,
             std::vector<std::string> choices) {
            new (self) Constraint(constraint_of(kind, std::move(text), std::move(choices)));
          },
          nb::arg("kind"), nb::arg("text") = "", nb::arg("choices") = std::vector<std::string>());
  auto sampling = SINTER_CLASS(SamplingParameters, seed, logit_bias, samples, max_tokens,
                               min_tokens, stop_tokens, stop_strings, logprobs, constraint);
#define SINTER_SAMPLING(type, name, ...) sampling.def_rw(#name, &SamplingParameters::name);
#define SINTER_SAMPLING_ADDED SINTER_SAMPLING
#include <sinter/sampling_rows.inc>
  module.def("sampling_rows", [] {
    nb::list rows;
    for (const SamplingRow& row : sampling_rows()) {
      nb::dict one;
      one["name"] = row.name;
      one["type"] = row.type;
      one["default"] = row.is_whole ? nb::object(nb::int_(static_cast<std::int64_t>(row.standard)))
                                    : nb::object(nb::float_(row.standard));
      one["help"] = row.help;
      rows.append(one);
    }
    return rows;
  });
  SINTER_CLASS(EngineOptions, max_waiting, max_step_tokens, prefix_cache, draft_tokens, draft_match,
               draft_match_least, draft_sequences, cache_bytes, state_bytes, max_sequences);
  nb::class_<EngineObject>(module, "Engine")
      .def(nb::init<nb::object, nb::object, EngineOptions, const std::optional<std::string>&>(),
           nb::arg("plan"), nb::arg("draft").none(), nb::arg("options"),
           nb::arg("tokenizer").none())
      .def("submit", &EngineObject::submit, nb::arg("prompt"), nb::arg("sampling"),
           nb::arg("priority"), nb::arg("timeout").none(), nb::arg("callback"))
      .def("cancel", &EngineObject::cancel, nb::arg("request"))
      .def("drain", &EngineObject::drain)
      .def("stats", &EngineObject::stats)
      .def("close", &EngineObject::close);
  // Runs before the interpreter's finalization, which kills threads that request the GIL.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    EngineObject::close_all();
    close_gil();
  }));
}

}  // namespace sinter::python
