// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/requests_file.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "runtime/sampling/random.h"
#include "tools/compiler/run/measure.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/request_fields.h"
#include "tools/serve/openai/completion_request.h"
#include "tools/serve/openai/logprobs.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using nlohmann::ordered_json;

/// A line of the file.
struct Line {
  CompletionRequest request;
  double arrival_ms = 0;
  std::size_t first_text = 0;  // among those of all lines

  std::size_t samples() const {
    return static_cast<std::size_t>(request.prompts.front().sampling.samples);
  }
  std::size_t texts() const { return request.prompts.size() * samples(); }
};

struct Answer {
  std::size_t line = 0, choice = 0;
  bool is_alone = true;  // of its line
  std::vector<TokenId> tokens;
  std::string text, finish, error;
  std::optional<LogprobWriter> writer;
  ordered_json logprobs;
  Clock::time_point arrived, last;
  double first_ms = 0;

  ordered_json report(bool has_text) const {
    ordered_json result = {{"tokens", tokens}, {"finish", finish}};
    if (!is_alone) result["choice"] = choice;
    if (has_text) result["text"] = text;
    if (!logprobs.is_null()) result["logprobs"] = logprobs;
    if (!error.empty()) result["error"] = error;
    return result;
  }
};

std::unique_ptr<ServedModel> load(const GenerateArguments& options, const OpenModel& opened,
                                  const Console& console) {
  ServedModelOptions model;
  model.plan = options.plan;
  std::optional<Plan> draft;
  if (!options.requests.draft.empty())
    draft = open_model(options.requests.draft, options.model, options.load, console).plan;
  model.open = [opened, draft] {
    return ServedPlans{.plan = opened.plan, .encoder = opened.encoder, .draft = draft};
  };
  model.context = options.context;
  model.tokenizer = options.tokenizer;
  model.chat_template = options.chat_template;
  model.generation_config = !options.no_generation_config;
  model.sequences = static_cast<int>(options.requests.sequences);
  model.step_tokens = static_cast<int>(options.requests.step_tokens);
  if (!options.requests.cache_memory.empty())
    model.cache_bytes =
        with_context("--cache-memory", [&] { return parse_bytes(options.requests.cache_memory); });
  if (!options.requests.state_memory.empty())
    model.state_bytes =
        with_context("--state-memory", [&] { return parse_bytes(options.requests.state_memory); });
  model.draft = options.requests.draft;
  model.draft_tokens = static_cast<int>(options.requests.draft_tokens);
  model.prefix_cache = !options.requests.no_prefix_cache;
  model.waiting = std::int64_t{1} << 40;
  model.session = options.session;
  model.load = options.load;
  return std::make_unique<ServedModel>(options.plan, std::move(model));
}

/// What the command's options say, where the line does not.
void put_defaults(const GenerateArguments& options, std::size_t text, json& body) {
  const auto put = [&](const char* name, const json& value) {
    if (!body.contains(name) || body[name].is_null()) body[name] = value;
  };
  if (!body.contains("max_completion_tokens")) put("max_tokens", options.max_tokens);
  const bool draws = options.config.do_sample.value_or(false) && !options.greedy;
  if (!draws) put("temperature", options.draws.value("temperature").value_or(0));
  for (const GivenDraw& draw : options.draws.given) {
    if (draw.number) put(draw.row->name, *draw.number);
    if (draw.whole) put(draw.row->name, *draw.whole);
  }
  // Each text draws for itself.
  put("seed", sampling::seed_of_sample(options.seed.value_or(0), static_cast<int>(text)));
  if (options.no_stop) put("ignore_eos", true);
}

Line read_line(std::string_view text, const GenerateArguments& options, const ServedModel& model,
               std::size_t first_text) {
  json body = parse_object(text);
  Line line;
  line.first_text = first_text;
  if (body.contains("ids")) {
    if (body.contains("prompt")) RequestFields::fail("ids", "contradicts 'prompt'");
    body["prompt"] = body["ids"];
    body.erase("ids");
  }
  RequestFields own(body);
  line.arrival_ms = own.number("arrival_ms", 0, 0, 1e12);
  own.refuse_unless("stream", false, "answers come whole; leave it out");
  for (const char* name : {"arrival_ms", "stream", "stream_options"}) body.erase(name);
  const bool has_limit = body.contains("max_tokens") || body.contains("max_completion_tokens");
  put_defaults(options, first_text, body);
  line.request = body.contains("messages") ? parse_chat(body, text, model)
                                           : parse_completion(body, text, model);
  if (has_limit) return line;
  // The command's limit is a most, whatever the model has room for.
  for (GenerationRequest& one : line.request.prompts) {
    const std::int64_t room = model.positions() - std::ssize(one.prompt);
    one.sampling.max_tokens = std::clamp<std::int64_t>(room, 1, one.sampling.max_tokens);
  }
  return line;
}

std::vector<Line> read_lines(const GenerateArguments& options, const ServedModel& model,
                             const std::vector<std::int64_t>& stops) {
  std::ifstream file = files::open_stream(options.requests.file);
  const std::optional<Constraint> constraint = constraint_of(options);
  std::vector<Line> lines;
  std::size_t number = 0, texts = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty()) continue;
    with_context(fmt::format("'{}', line {}", options.requests.file, number), [&] {
      try {
        lines.push_back(read_line(text, options, model, texts));
      } catch (const ApiError& error) {
        throw usage_error("{}", error.what());
      }
    });
    texts += lines.back().texts();
    for (GenerationRequest& one : lines.back().request.prompts) {
      if (!options.no_stop)
        one.sampling.stop_tokens.insert(one.sampling.stop_tokens.end(), stops.begin(), stops.end());
      if (!one.sampling.constraint) one.sampling.constraint = constraint;
    }
  }
  if (lines.empty()) throw usage_error("'{}' has no requests", options.requests.file);
  std::ranges::stable_sort(lines, {}, &Line::arrival_ms);
  // Numbers of texts are of the file for their seeds, and of the order of arrival for answers.
  texts = 0;
  for (Line& line : lines) line.first_text = std::exchange(texts, texts + line.texts());
  return lines;
}

double ms_of(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

/// What came of all of them, as they end.
class Answers {
 public:
  Answers(const std::vector<Line>& lines, const ServedModel& model, const Console& console)
      : console_(console), has_text_(model.tokenizer() != nullptr) {
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (std::size_t choice = 0; choice < lines[i].texts(); ++choice) {
        Answer& answer = answers_.emplace_back();
        answer.line = i;
        answer.choice = choice;
        answer.is_alone = lines[i].texts() == 1;
        if (lines[i].request.prompts.front().sampling.logprobs) answer.writer.emplace(model);
      }
  }

  /// Of the texts of one prompt, whose first one is `first`.
  Engine::Callback callback(std::size_t first, std::size_t samples) {
    for (std::size_t i = first; i < first + samples; ++i) answers_[i].arrived = Clock::now();
    return [this, first](const GenerationOutput& output) {
      add(answers_[first + static_cast<std::size_t>(output.sample)], output);
    };
  }

  json report(double seconds, const EngineStats& stats, std::size_t requests,
              std::size_t prompt_tokens) const {
    std::size_t tokens = 0, failed = 0;
    std::vector<double> first;
    for (const Answer& answer : answers_) {
      tokens += answer.tokens.size();
      failed += answer.error.empty() ? 0 : 1;
      first.push_back(answer.first_ms);
    }
    const auto each = [](std::uint64_t all, std::uint64_t count) {
      return count == 0 ? 0.0 : static_cast<double>(all) / static_cast<double>(count);
    };
    return {{"requests", requests},
            {"failed", failed},
            {"seconds", seconds},
            {"prompt_tokens", prompt_tokens},
            {"tokens", tokens},
            {"tokens_per_s", static_cast<double>(tokens) / seconds},
            {"requests_per_s", static_cast<double>(requests) / seconds},
            {"first_token_ms", to_json(statistics_of(first))},
            {"between_tokens_ms", to_json(statistics_of(between_))},
            {"steps", stats.steps},
            {"sequences_a_step", each(stats.step_sequences, stats.steps)},
            {"tokens_a_step", each(stats.step_tokens, stats.steps)},
            {"idle_share", stats.idle_seconds / seconds},
            {"preemptions", stats.preemptions},
            {"prefix_hit_tokens", stats.prefix_hit_tokens},
            {"draft_tokens", stats.draft_tokens},
            {"accepted_draft_tokens", stats.accepted_draft_tokens}};
  }
  const std::vector<Answer>& all() const { return answers_; }

 private:
  void add(Answer& answer, const GenerationOutput& output) {
    const auto now = Clock::now();
    if (!output.tokens.empty()) {
      if (answer.tokens.empty())
        answer.first_ms = ms_of(now - answer.arrived);
      else
        between_.push_back(ms_of(now - answer.last));
      answer.last = now;
    }
    answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
    answer.text += output.text;
    if (answer.writer) {
      const ordered_json told = answer.writer->of_text(output);
      if (answer.logprobs.is_null()) answer.logprobs = ordered_json::object();
      for (const auto& [name, values] : told.items())
        for (const auto& value : values) answer.logprobs[name].push_back(value);
    }
    if (output.finish == FinishReason::kNone) return;
    answer.finish = to_string(output.finish);
    answer.error = output.error;
    if (console_.json) return;
    ordered_json line = {{"request", answer.line}};
    line.update(answer.report(has_text_));
    console_.print("{}", dump(line));
  }

  std::vector<Answer> answers_;
  std::vector<double> between_;
  const Console& console_;
  bool has_text_;
};

/// Requests that run when an error ends the command are cancelled, before what they write to goes.
class RunningRequests {
 public:
  explicit RunningRequests(Engine& engine) : engine_(engine) {}
  ~RunningRequests() {
    for (const RequestId id : ids_) engine_.cancel(id);
    engine_.drain();
  }
  RunningRequests(const RunningRequests&) = delete;
  RunningRequests& operator=(const RunningRequests&) = delete;

  void add(RequestId id) { ids_.push_back(id); }

 private:
  Engine& engine_;
  std::vector<RequestId> ids_;
};

}  // namespace

int run_requests_file(const GenerateArguments& options, const OpenModel& opened,
                      const std::vector<std::int64_t>& stops, const Console& console) {
  const auto model = load(options, opened, console);
  if (model->engine() == nullptr)
    throw usage_error("--requests needs a decoder of texts, and '{}' is not one", options.plan);
  const std::vector<Line> lines = read_lines(options, *model, stops);
  Engine& engine = *model->engine();
  Answers answers(lines, *model, console);
  RunningRequests running(engine);
  std::size_t prompt_tokens = 0;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    std::this_thread::sleep_until(start +
                                  std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double, std::milli>(line.arrival_ms)));
    for (std::size_t p = 0; p < line.request.prompts.size(); ++p) {
      const GenerationRequest& one = line.request.prompts[p];
      prompt_tokens += one.prompt.size();
      with_context(fmt::format("request {}", i), [&] {
        running.add(engine.submit(
            one, answers.callback(line.first_text + p * line.samples(), line.samples())));
      });
    }
  }
  engine.drain();
  const EngineStats stats = engine.stats();
  const double seconds = ms_of(Clock::now() - start) / 1000;
  ordered_json result = {{"plan", options.plan},
                         {"target", model->target()},
                         {"block_size", model->block_size()},
                         {"blocks", model->blocks()},
                         {"cache_bytes", model->cache_bytes()}};
  const json figures = answers.report(seconds, stats, lines.size(), prompt_tokens);
  result.update(figures);
  if (console.json)
    for (const Answer& answer : answers.all())
      result["answers"].push_back(answer.report(model->tokenizer() != nullptr));
  console.note(fmt::format(
      "{} requests in {:.2f} s: {:.0f} tokens/s, first token after {:.1f} ms (median), {:.2f} ms "
      "between tokens (median); {} steps of {:.1f} sequences, {:.1f} % idle",
      lines.size(), seconds, figures["tokens_per_s"].get<double>(),
      figures["first_token_ms"]["median"].get<double>(),
      figures["between_tokens_ms"]["median"].get<double>(), stats.steps,
      figures["sequences_a_step"].get<double>(), 100 * figures["idle_share"].get<double>()));
  console.result(result);
  return figures["failed"].get<std::size_t>() == 0 ? 0 : 1;
}

}  // namespace sinter::tools
