// SPDX-License-Identifier: Apache-2.0
// The C ABI: engines.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sinter/engine.h>

#include "runtime/c/c_handles.h"
#include "runtime/c/c_support.h"
#include "runtime/format_error.h"

namespace sinter::c {
namespace {

static_assert(SINTER_FINISH_NONE == static_cast<int>(FinishReason::kNone));
static_assert(SINTER_FINISH_STOP == static_cast<int>(FinishReason::kStop));
static_assert(SINTER_FINISH_LENGTH == static_cast<int>(FinishReason::kLength));
static_assert(SINTER_FINISH_CANCELLED == static_cast<int>(FinishReason::kCancelled));
static_assert(SINTER_FINISH_DEADLINE == static_cast<int>(FinishReason::kDeadline));
static_assert(SINTER_FINISH_ERROR == static_cast<int>(FinishReason::kError));
static_assert(SINTER_DURATION_BUCKETS == DurationHistogram::kBuckets);

thread_local bool is_in_callback = false;

/// Deletes an engine. Its destructor joins the engine's thread, which cannot join itself: a
/// callback that holds the last reference deletes on another thread.
void end_engine(Engine* engine) {
  if (is_in_callback)
    std::thread([engine] { delete engine; }).detach();
  else
    delete engine;
}

std::chrono::nanoseconds duration_of(double seconds, const char* what) {
  constexpr double kMost = 1e9;  // 31 years
  if (!(seconds > 0 && seconds <= kMost))
    throw usage_error("{} is {}: from 0 to {:g}", what, seconds, kMost);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

constexpr std::pair<sinter_constraint, Constraint::Kind> kConstraints[] = {
    {SINTER_CONSTRAINT_JSON_OBJECT, Constraint::Kind::kJsonObject},
    {SINTER_CONSTRAINT_JSON_SCHEMA, Constraint::Kind::kJsonSchema},
    {SINTER_CONSTRAINT_REGEX, Constraint::Kind::kRegex},
    {SINTER_CONSTRAINT_GRAMMAR, Constraint::Kind::kGrammar},
    {SINTER_CONSTRAINT_CHOICE, Constraint::Kind::kChoice},
    {SINTER_CONSTRAINT_STRUCTURAL_TAG, Constraint::Kind::kStructuralTag}};
/// sinter_generation_request up to `likeliest`: its first released version.
constexpr std::size_t kFirstRequest = offsetof(sinter_generation_request, constraint);

/// sinter_engine_options up to `user`: its first released version.
constexpr std::size_t kFirstOptions = offsetof(sinter_engine_options, text_start);

/// A detokenizer made of the caller's functions.
class CallersText : public TokenText {
 public:
  explicit CallersText(const sinter_engine_options& said)
      : said_(said), text_(said.text_start(said.user)) {}
  CallersText(const CallersText&) = delete;
  CallersText& operator=(const CallersText&) = delete;
  ~CallersText() override { said_.text_free(said_.user, text_); }
  std::string add(TokenId token) override {
    std::size_t bytes = 0;
    const char* const data = said_.text_add(said_.user, text_, token, &bytes);
    return data ? std::string(data, bytes) : std::string();
  }
  std::string finish() override {
    std::size_t bytes = 0;
    const char* const data = said_.text_finish(said_.user, text_, &bytes);
    return data ? std::string(data, bytes) : std::string();
  }

 private:
  sinter_engine_options said_;
  void* text_;
};

EngineOptions engine_options_of(const sinter_engine_options& said) {
  EngineOptions options;
  options.cache_bytes = said.cache_bytes;
  options.max_sequences = said.max_sequences;
  options.max_step_tokens = said.max_step_tokens;
  if (said.max_waiting != 0) options.max_waiting = said.max_waiting;
  options.prefix_cache = said.without_prefix_cache == 0;
  options.draft_tokens = said.draft_tokens;
  if (said.draft_match != 0) options.draft_match = said.draft_match;
  if (said.draft_match_least != 0) options.draft_match_least = said.draft_match_least;
  if (said.draft_sequences != 0) options.draft_sequences = said.draft_sequences;
  if (said.priority_seconds != 0)
    options.priority_step = duration_of(said.priority_seconds, "priority_seconds");
  if (said.token_bytes)
    options.token_bytes = [call = said.token_bytes, user = said.user](TokenId token) {
      std::size_t bytes = 0;
      const char* data = call(user, token, &bytes);
      return data ? std::string_view(data, bytes) : std::string_view();
    };
  const int given = (said.text_start != nullptr) + (said.text_add != nullptr) +
                    (said.text_finish != nullptr) + (said.text_free != nullptr);
  if (given != 0 && given != 4)
    throw usage_error("text_start, text_add, text_finish and text_free are given together");
  if (given != 0) options.token_text = [said] { return std::make_unique<CallersText>(said); };
  return options;
}

std::optional<Constraint> constraint_of(const sinter_generation_request& said) {
  if (said.constraint == SINTER_CONSTRAINT_NONE) {
    if (said.constraint_text != nullptr || said.choice_count != 0)
      throw usage_error("constraint_text and choices are of a constraint: say which");
    return std::nullopt;
  }
  const auto found = std::ranges::find(kConstraints, said.constraint,
                                       &std::pair<sinter_constraint, Constraint::Kind>::first);
  if (found == std::end(kConstraints))
    throw usage_error("constraint {} is none of SINTER_CONSTRAINT_..", said.constraint);
  Constraint constraint{found->second, {}, {}};
  if (said.constraint_text != nullptr) constraint.text = said.constraint_text;
  constraint.choices = given_texts(said.choices, said.choice_count, "choices", "a choice");
  return constraint;
}

GenerationRequest request_of(const sinter_generation_request& said) {
  GenerationRequest request;
  request.prompt = copied(said.prompt, said.prompt_count, "prompt");
  request.priority = said.priority;
  if (said.timeout_seconds != 0)
    request.deadline =
        EngineTime::clock::now() + duration_of(said.timeout_seconds, "timeout_seconds");
  SamplingParameters& sampling = request.sampling;
  if (said.max_tokens != 0) sampling.max_tokens = said.max_tokens;
  if (said.samples != 0) sampling.samples = said.samples;
#define SINTER_SAMPLING(type, name, ...) \
  if (said.name != 0) sampling.name = said.name;
#define SINTER_SAMPLING_ADDED SINTER_SAMPLING
#include <sinter/sampling_rows.inc>
  sampling.min_tokens = said.min_tokens;
  sampling.seed = said.seed;
  for (const auto& [token, bias] :
       given_array(said.logit_bias, said.logit_bias_count, "logit_bias"))
    sampling.logit_bias.emplace_back(token, bias);
  sampling.stop_tokens = copied(said.stop_tokens, said.stop_token_count, "stop_tokens");
  sampling.stop_strings =
      given_texts(said.stop_strings, said.stop_string_count, "stop_strings", "a stop string");
  sampling.constraint = constraint_of(said);
  if (said.with_logprobs != 0)
    sampling.logprobs = said.likeliest;
  else if (said.likeliest != 0)
    throw usage_error("likeliest is {}: set with_logprobs too", said.likeliest);
  return request;
}

/// Passes outputs to a C program.
class Callback {
 public:
  Callback(sinter_generation_callback call, void* user) : call_(call), user_(user) {}

  void operator()(const GenerationOutput& output) {
    logprobs_.clear();
    likeliest_.clear();
    for (const TokenLogprobs& token : output.logprobs) {
      logprobs_.push_back(token.logprob);
      for (const auto& [id, logprob] : token.likeliest) likeliest_.push_back({id, logprob});
    }
    sinter_generation_output value{};
    value.struct_size = sizeof value;
    value.request = output.request;
    value.sample = output.sample;
    value.finish = static_cast<sinter_finish>(output.finish);
    value.tokens = output.tokens.data();
    value.token_count = output.tokens.size();
    value.text = output.text.c_str();
    value.text_bytes = output.text.size();
    value.error = output.error.c_str();
    if (!logprobs_.empty()) {
      value.logprobs = logprobs_.data();
      value.likeliest = likeliest_.data();
      value.likeliest_count = likeliest_.size() / logprobs_.size();
    }
    is_in_callback = true;
    const std::unique_ptr<bool, void (*)(bool*)> leave(&is_in_callback,
                                                       [](bool* flag) { *flag = false; });
    call_(user_, &value);
  }

 private:
  sinter_generation_callback call_;
  void* user_;
  std::vector<float> logprobs_;
  std::vector<sinter_logprob> likeliest_;
};

sinter_durations durations_of(const DurationHistogram& histogram) {
  sinter_durations durations{};
  std::ranges::copy(histogram.counts, durations.counts);
  durations.count = histogram.count;
  durations.seconds = histogram.seconds;
  return durations;
}

}  // namespace
}  // namespace sinter::c

using namespace sinter;
using c::given;
using c::guarded;

extern "C" {

const char* sinter_finish_name(sinter_finish finish) {
  if (finish < SINTER_FINISH_NONE || finish > SINTER_FINISH_ERROR) return "unknown";
  return to_string(static_cast<FinishReason>(finish)).data();
}

sinter_status sinter_engine_create(const sinter_plan* plan, const sinter_engine_options* options,
                                   sinter_engine** engine) {
  return guarded([&] {
    given(engine, "engine");
    const auto said =
        options ? c::read_struct(options, "options", c::kFirstOptions) : sinter_engine_options{};
    auto made = std::make_unique<Engine>(c::plans().at(plan)->plan, c::engine_options_of(said),
                                         c::session_options_of(said.session));
    *engine = c::engines().add(std::shared_ptr<Engine>(made.release(), c::end_engine));
  });
}

void sinter_engine_free(sinter_engine* engine) { c::engines().remove(engine); }

sinter_status sinter_engine_submit(sinter_engine* engine,
                                   const sinter_generation_request* generation,
                                   sinter_generation_callback callback, void* user,
                                   uint64_t* request) {
  return guarded([&] {
    if (!callback) throw usage_error("callback is NULL");
    const RequestId id = c::engines().at(engine)->submit(
        c::request_of(c::read_struct(generation, "generation", c::kFirstRequest)),
        c::Callback(callback, user));
    if (request) *request = id;
  });
}

sinter_status sinter_engine_cancel(sinter_engine* engine, uint64_t request) {
  return guarded([&] { c::engines().at(engine)->cancel(request); });
}

sinter_status sinter_engine_drain(sinter_engine* engine) {
  return guarded([&] { c::engines().at(engine)->drain(); });
}

sinter_status sinter_engine_get_stats(const sinter_engine* engine, sinter_engine_stats* stats) {
  return guarded([&] {
    const EngineStats found = c::engines().at(engine)->stats();
    sinter_engine_stats value{};
    value.requests = found.requests;
    value.finished = found.finished;
    value.steps = found.steps;
    value.prompt_tokens = found.prompt_tokens;
    value.generated_tokens = found.generated_tokens;
    value.step_sequences = found.step_sequences;
    value.step_tokens = found.step_tokens;
    value.padded_tokens = found.padded_tokens;
    value.preemptions = found.preemptions;
    value.prefix_tokens = found.prefix_tokens;
    value.prefix_hit_tokens = found.prefix_hit_tokens;
    value.draft_tokens = found.draft_tokens;
    value.accepted_draft_tokens = found.accepted_draft_tokens;
    value.idle_seconds = found.idle_seconds;
    value.waiting_seconds = found.waiting_seconds;
    value.waiting = found.waiting;
    value.running = found.running;
    value.blocks = found.blocks;
    value.used_blocks = found.used_blocks;
    value.cached_blocks = found.cached_blocks;
    value.queue = c::durations_of(found.queue);
    value.first_token = c::durations_of(found.first_token);
    value.between_tokens = c::durations_of(found.between_tokens);
    c::write_struct(stats, value, "stats");
  });
}

}  // extern "C"
