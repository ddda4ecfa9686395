// sinter._core.Engine: many requests over a plan of compile(serve=..).
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sinter/engine.h>

#include "tools/generate/token_text.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/struct.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

/// A Python object that threads without the GIL may let go.
std::shared_ptr<nb::object> shared(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            if (!Py_IsInitialized()) return;
            nb::gil_scoped_acquire acquire;
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
    nb::gil_scoped_release release;
    if (tokenizer) {
      tokenizer_.emplace(tools::Tokenizer::parse(*tokenizer));
      tools::give_texts(*tokenizer_, options);
    }
    const SessionOptions session = session_options(object.options(), false);
    engine_ =
        guesser == nullptr
            ? std::make_unique<Engine>(object.plan(), std::move(options), session)
            : std::make_unique<Engine>(object.plan(), guesser->plan(), std::move(options), session);
  }
  ~EngineObject() { close(); }

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
      nb::gil_scoped_acquire acquire;
      try {
        (*target)(output.request, output.sample, output.tokens, text(output.text),
                  logprobs_of(output), std::string(to_string(output.finish)), text(output.error));
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("a callback of sinter.Engine");
        throw std::runtime_error("the callback raised an exception");  // cancels the request
      }
    };
    nb::gil_scoped_release release;
    return open().submit(std::move(request), std::move(call));
  }
  void cancel(RequestId request) {
    nb::gil_scoped_release release;
    open().cancel(request);
  }
  void drain() {
    nb::gil_scoped_release release;
    open().drain();
  }
  nb::dict stats() {
    const EngineStats stats = open().stats();
    nb::dict d;
    SINTER_ITEMS(stats, requests, finished, steps, prompt_tokens, generated_tokens, step_sequences,
                 step_tokens, padded_tokens, preemptions, prefix_tokens, prefix_hit_tokens,
                 draft_tokens, accepted_draft_tokens, idle_seconds, waiting_seconds, waiting,
                 running, blocks, used_blocks, cached_blocks);
    return d;
  }
  void close() {
    // The engine's thread may wait for the GIL in a callback.
    nb::gil_scoped_release release;
    engine_.reset();
  }

 private:
  Engine& open() const {
    if (!engine_) throw Error(ErrorCode::kUsage, "the engine is closed");
    return *engine_;
  }

  std::optional<tools::Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;  // last: it ends before what it reads
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
  SINTER_CLASS(SamplingParameters, temperature, top_k, top_p, min_p, repetition_penalty,
               presence_penalty, frequency_penalty, seed, logit_bias, samples, max_tokens,
               min_tokens, stop_tokens, stop_strings, logprobs, constraint);
  SINTER_CLASS(EngineOptions, max_waiting, max_step_tokens, prefix_cache, draft_tokens, draft_match,
               draft_match_least, draft_sequences, cache_bytes, max_sequences);
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
}

}  // namespace sinter::python
