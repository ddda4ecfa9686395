// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/verbs/generate_text.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "runtime/engine/sampler.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/options/sample.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t interrupted = 0;

/// Tokens one after the other, from the plan's sampler or one here.
class Chooser {
 public:
  Chooser(const GenerateArguments& options, Decoder& decoder, std::span<const std::int64_t> text,
          std::vector<TokenId> stops, std::shared_ptr<const grammar::Grammar> grammar)
      : decoder_(decoder),
        sampler_(start(sampling_of(options, decoder.sampler()), text, std::move(stops),
                       std::move(grammar))) {}

  std::int64_t first(std::span<const std::int64_t> prompt) {
    if (!decoder_.sampler()) return draw(decoder_.run(prompt));
    decoder_.start(prompt);
    return decoder_.token();
  }
  /// Starts on the token behind `id`, where that takes no waiting.
  void begin_next() {
    if (decoder_.sampler()) decoder_.next();
  }
  std::int64_t next(std::int64_t id) {
    return decoder_.sampler() ? decoder_.token() : draw(decoder_.run({&id, 1}));
  }
  /// Whether a constraint allows nothing more.
  bool has_ended() const { return sampler_.has_ended(); }

 private:
  TokenId draw(std::span<const float> logits) {
    const engine::SampleResult drawn = sampler_.sample(logits, {});
    if (!drawn.error.empty()) throw usage_error(drawn.error);
    return drawn.tokens.front();
  }

  static engine::SlotStart start(SamplingParameters sampling, std::span<const std::int64_t> text,
                                 std::vector<TokenId> stops,
                                 std::shared_ptr<const grammar::Grammar> grammar) {
    engine::SlotStart start;
    start.seed = sampling.seed;
    start.tokens = {text.begin(), text.end()};
    sampling.stop_tokens = std::move(stops);
    start.grammar = std::move(grammar);
    start.sampling = std::make_shared<const SamplingParameters>(std::move(sampling));
    return start;
  }

  Decoder& decoder_;
  engine::SlotSampler sampler_;
};

}  // namespace

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

Interrupts::Interrupts() {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

std::optional<Constraint> constraint_of(const GenerateArguments& options) {
  const ConstraintArguments& said = options.constraint;
  std::vector<std::pair<const char*, Constraint>> all;
  const auto read = [](const std::string& path) {
    std::ifstream file = files::open_stream(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  using Kind = Constraint::Kind;
  if (said.json_object) all.push_back({"--json-object", {Kind::kJsonObject, {}, {}}});
  if (!said.schema_file.empty())
    all.push_back({"--json-schema", {Kind::kJsonSchema, read(said.schema_file), {}}});
  if (!said.regex.empty()) all.push_back({"--regex", {Kind::kRegex, said.regex, {}}});
  if (!said.grammar_file.empty())
    all.push_back({"--grammar", {Kind::kGrammar, read(said.grammar_file), {}}});
  if (!said.choices.empty()) all.push_back({"--choice", {Kind::kChoice, {}, said.choices}});
  if (all.empty()) return std::nullopt;
  if (all.size() > 1)
    throw usage_error("{} and {} contradict each other: give one", all[0].first, all[1].first);
  if (options.tokenizer.empty())
    throw usage_error("{} needs the text of tokens: give --tokenizer", all[0].first);
  return std::move(all[0].second);
}

std::shared_ptr<const grammar::Grammar> grammar_of(const GenerateArguments& options,
                                                   const Decoder& decoder,
                                                   const Tokenizer* tokenizer) {
  const auto constraint = constraint_of(options);
  if (!constraint) return nullptr;
  if (decoder.sampler())
    throw usage_error(
        "--json-object, --json-schema, --regex, --grammar and --choice need logits, and the plan "
        "chooses tokens itself ({}): compile without --sample",
        to_text(*decoder.sampler()));
  grammar::Compiler compiler(static_cast<int>(decoder.vocabulary()), [&](TokenId id) {
    return tokenizer->is_special(id) ? std::string_view() : tokenizer->bytes_of(id);
  });
  return compiler.compile(*constraint);
}

SamplingParameters sampling_of(const GenerateArguments& options,
                               const std::optional<SampleOptions>& plan) {
  const auto differ = [&](const char* flag) {
    throw usage_error(
        "{} says otherwise than the plan, which chooses tokens itself ({}): "
        "compile without --sample to choose them here",
        flag, to_text(*plan));
  };
  const bool draws =
      !options.greedy && !options.temperature && !plan && options.config.do_sample.value_or(false);
  if (plan) {
    if (options.greedy && !plan->is_greedy()) differ("--greedy");
    if (options.temperature && *options.temperature != plan->temperature) differ("--temperature");
    if (options.top_k && *options.top_k != plan->top_k) differ("--top-k");
    if (options.top_p && *options.top_p != plan->top_p) differ("--top-p");
    if (options.seed && plan->is_greedy()) differ("--seed");
  } else if (!options.temperature && !draws) {
    for (const auto& [given, flag] : {std::pair(options.top_k.has_value(), "--top-k"),
                                      std::pair(options.top_p.has_value(), "--top-p"),
                                      std::pair(options.seed.has_value(), "--seed")})
      if (given) throw usage_error("{} is of a draw: give --temperature", flag);
  }
  SamplingParameters sampling;
  if (!plan && !options.greedy) {
    sampling.temperature = 1;
    options.config.apply(sampling);
  }
  if (!draws) sampling.temperature = options.temperature.value_or(0);
  sampling.top_k = options.top_k.value_or(sampling.top_k);
  sampling.top_p = options.top_p.value_or(sampling.top_p);
  sampling.seed = options.seed.value_or(0);
  engine::check_sampling(sampling, 0);
  return sampling;
}

Generated generate(const GenerateArguments& options, Decoder& decoder,
                   std::span<const std::int64_t> text, std::size_t known,
                   const std::vector<std::int64_t>& stops, const Tokenizer* tokenizer,
                   const std::shared_ptr<const grammar::Grammar>& grammar, Stream& stream) {
  Generated result;
  const auto ends = [&](std::int64_t id) {
    if (options.no_stop) return false;
    if (std::ranges::find(stops, id) != stops.end()) return true;
    const auto& own = options.config.stop_tokens;
    if (!own.empty()) return std::ranges::find(own, static_cast<TokenId>(id)) != own.end();
    return tokenizer != nullptr && tokenizer->is_special(id);
  };
  std::vector<TokenId> ending;
  if (grammar != nullptr)
    for (TokenId id = 0; id < decoder.vocabulary(); ++id)
      if (ends(id)) ending.push_back(id);
  Chooser chooser(options, decoder, text, std::move(ending), grammar);
  auto start = Clock::now();
  std::int64_t id = chooser.first(text.subspan(known));
  result.first_us = microseconds_since(start);
  while (true) {
    result.tokens.push_back(id);
    if (ends(id)) {
      result.stopped_by = "stop token";
      break;
    }
    if (chooser.has_ended()) {
      stream.add(id);
      result.stopped_by = "constraint";
      break;
    }
    const bool is_last = std::ssize(result.tokens) >= options.max_tokens;
    const bool is_full = decoder.position() >= decoder.capacity();
    if (interrupted != 0) {
      stream.add(id);
      result.stopped_by = "interrupt";
      break;
    }
    start = Clock::now();
    // While the plan is at the next one, this one is shown.
    if (!is_last && !is_full) chooser.begin_next();
    stream.add(id);
    if (is_last || is_full) {
      result.stopped_by = is_last ? "max tokens" : "context";
      break;
    }
    id = chooser.next(id);
    result.steps.push_back(microseconds_since(start));
  }
  stream.finish();
  return result;
}

}  // namespace sinter::tools
