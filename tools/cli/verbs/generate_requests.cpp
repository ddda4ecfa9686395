#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <sinter/engine.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "runtime/format_error.h"
#include "tools/cli/verbs/generate_text.h"
#include "tools/compiler/run/measure.h"
#include "tools/generate/token_text.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

/// A line of the file.
struct Line {
  GenerationRequest request;
  double arrival_ms = 0;
};

struct Answer {
  std::vector<TokenId> tokens;
  std::string text, finish, error;
  Clock::time_point arrived, last;
  double first_ms = 0;
};

template <typename T>
T value_or(const json& line, const char* key, T fallback) {
  return line.contains(key) ? line.at(key).get<T>() : fallback;
}

Line read_line(const json& line, const GenerateArguments& options,
               const std::optional<Constraint>& constraint, const Tokenizer* tokenizer) {
  Line result;
  GenerationRequest& request = result.request;
  if (line.contains("ids")) {
    request.prompt = line.at("ids").get<std::vector<TokenId>>();
  } else {
    if (tokenizer == nullptr)
      throw usage_error("a prompt of text needs --tokenizer; ids need none");
    for (const std::int64_t id : tokenizer->encode(line.at("prompt").get<std::string>()))
      request.prompt.push_back(static_cast<TokenId>(id));
  }
  SamplingParameters& sampling = request.sampling;
  sampling.max_tokens = value_or(line, "max_tokens", options.max_tokens);
  sampling.temperature = value_or(line, "temperature", options.temperature.value_or(0));
  sampling.top_p = value_or(line, "top_p", options.top_p.value_or(1));
  sampling.top_k = value_or(line, "top_k", options.top_k.value_or(0));
  sampling.seed = value_or(line, "seed", options.seed.value_or(0));
  sampling.samples = value_or(line, "n", 1);
  sampling.stop_strings = value_or(line, "stop", std::vector<std::string>());
  sampling.constraint = constraint;
  if (sampling.samples != 1)
    throw usage_error("n is {}: write a line for each text", sampling.samples);
  result.arrival_ms = value_or(line, "arrival_ms", 0.0);
  return result;
}

std::vector<Line> read_lines(const GenerateArguments& options, const Tokenizer* tokenizer,
                             const std::vector<std::int64_t>& stops) {
  std::ifstream file(options.requests.file);
  if (!file) throw usage_error("cannot read '{}'", options.requests.file);
  const std::optional<Constraint> constraint = constraint_of(options);
  std::vector<Line> lines;
  std::size_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty()) continue;
    with_context(fmt::format("'{}', line {}", options.requests.file, number), [&] {
      try {
        lines.push_back(read_line(read_json(text, "the line"), options, constraint, tokenizer));
      } catch (const json::exception& error) {
        throw usage_error(
            "{}: a line is an object with \"prompt\" or \"ids\" and, if wanted, max_tokens, "
            "temperature, top_p, top_k, seed, stop and arrival_ms",
            error.what());
      }
    });
    for (const std::int64_t stop : stops)
      if (!options.no_stop)
        lines.back().request.sampling.stop_tokens.push_back(static_cast<TokenId>(stop));
  }
  if (lines.empty()) throw usage_error("'{}' has no requests", options.requests.file);
  std::ranges::stable_sort(lines, {}, &Line::arrival_ms);
  return lines;
}

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

/// What came of all of them, as they end.
class Answers {
 public:
  Answers(std::size_t count, const Console& console, bool has_text)
      : answers_(count), console_(console), has_text_(has_text) {}

  Engine::Callback callback(std::size_t i) {
    answers_[i].arrived = Clock::now();
    return [this, i](const GenerationOutput& output) { add(i, output); };
  }

  json report(double seconds, const EngineStats& stats, std::size_t prompt_tokens) const {
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
    return {{"requests", answers_.size()},
            {"failed", failed},
            {"seconds", seconds},
            {"prompt_tokens", prompt_tokens},
            {"tokens", tokens},
            {"tokens_per_s", static_cast<double>(tokens) / seconds},
            {"requests_per_s", static_cast<double>(answers_.size()) / seconds},
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
  void add(std::size_t i, const GenerationOutput& output) {
    Answer& answer = answers_[i];
    const auto now = Clock::now();
    if (!output.tokens.empty()) {
      if (answer.tokens.empty())
        answer.first_ms = milliseconds(now - answer.arrived);
      else
        between_.push_back(milliseconds(now - answer.last));
      answer.last = now;
    }
    answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
    answer.text += output.text;
    if (output.finish == FinishReason::kNone) return;
    answer.finish = to_string(output.finish);
    answer.error = output.error;
    if (console_.json) return;
    json line = {{"request", i}, {"tokens", answer.tokens}, {"finish", answer.finish}};
    if (has_text_) line["text"] = answer.text;
    if (!answer.error.empty()) line["error"] = answer.error;
    console_.print("{}", line.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  std::vector<Answer> answers_;
  std::vector<double> between_;
  const Console& console_;
  bool has_text_;
};

}  // namespace

int run_requests(const GenerateArguments& options, const Tokenizer* tokenizer,
                 const std::vector<std::int64_t>& stops, const Console& console) {
  const Plan plan = Plan::load(options.plan);
  if (!engine::PagedExecutor::takes(plan))
    throw usage_error(
        "'{}' is of one sequence at a time: compile the model with --serve for many requests",
        options.plan);
  std::vector<Line> lines = read_lines(options, tokenizer, stops);
  EngineOptions engine_options;
  engine_options.max_waiting = std::ssize(lines);
  engine_options.max_sequences = static_cast<int>(options.requests.sequences);
  engine_options.max_step_tokens = static_cast<int>(options.requests.step_tokens);
  if (!options.requests.cache_memory.empty())
    engine_options.cache_bytes =
        with_context("--cache-memory", [&] { return parse_bytes(options.requests.cache_memory); });
  engine_options.draft_tokens = engine::draft_tokens_of(
      static_cast<int>(options.requests.draft_tokens), !options.requests.draft.empty());
  engine_options.prefix_cache = !options.requests.no_prefix_cache;
  std::optional<Plan> draft;
  if (!options.requests.draft.empty()) draft = Plan::load(options.requests.draft);
  auto [executor, cache_bytes] =
      engine::make_executor(plan, draft ? &*draft : nullptr, engine_options, options.session);
  const auto limits = executor->limits();
  // Where a constraint lets a text end and go on, one of these says which.
  for (TokenId id = 0; tokenizer != nullptr && !options.no_stop && id < limits.vocabulary; ++id)
    if (tokenizer->is_special(id))
      for (Line& line : lines)
        if (line.request.sampling.constraint) line.request.sampling.stop_tokens.push_back(id);
  if (tokenizer != nullptr) give_texts(*tokenizer, engine_options);
  Answers answers(lines.size(), console, tokenizer != nullptr);
  std::size_t prompt_tokens = 0;
  const auto start = Clock::now();
  EngineStats stats;
  {
    Engine engine(std::move(executor), engine_options);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double, std::milli>(lines[i].arrival_ms)));
      prompt_tokens += lines[i].request.prompt.size();
      with_context(fmt::format("request {}", i),
                   [&] { engine.submit(lines[i].request, answers.callback(i)); });
    }
    engine.drain();
    stats = engine.stats();
  }
  const double seconds = milliseconds(Clock::now() - start) / 1000;
  nlohmann::ordered_json result = {{"plan", options.plan},
                                   {"target", plan.target()},
                                   {"block_size", limits.block_size},
                                   {"blocks", limits.block_count},
                                   {"cache_bytes", cache_bytes}};
  const json figures = answers.report(seconds, stats, prompt_tokens);
  result.update(figures);
  if (console.json) {
    for (const Answer& answer : answers.all()) {
      nlohmann::ordered_json each = {{"tokens", answer.tokens}, {"finish", answer.finish}};
      if (tokenizer != nullptr) each["text"] = answer.text;
      if (!answer.error.empty()) each["error"] = answer.error;
      result["answers"].emplace_back(std::move(each));
    }
  }
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
