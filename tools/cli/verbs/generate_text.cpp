// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/verbs/generate_text.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/engine/sampler.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/generate/ask.h"
#include "tools/generate/token_text.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Tokens per step for a long prompt.
constexpr std::int64_t kChunk = 512;

volatile std::sig_atomic_t interrupted = 0;

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

SamplingParameters sampling_of(const GenerateArguments& options) {
  const bool draws =
      !options.greedy && !options.temperature && options.config.do_sample.value_or(false);
  if (!options.temperature && !draws)
    for (const auto& [given, flag] : {std::pair(options.top_k.has_value(), "--top-k"),
                                      std::pair(options.top_p.has_value(), "--top-p"),
                                      std::pair(options.seed.has_value(), "--seed")})
      if (given) throw usage_error("{} is of a draw: give --temperature", flag);
  SamplingParameters sampling;
  if (!options.greedy) {
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

TextGenerator::TextGenerator(const GenerateArguments& options, const Plan& plan,
                             std::int64_t prompt, const std::vector<std::int64_t>& stops,
                             const Tokenizer* tokenizer)
    : options_(options), sampling_(sampling_of(options)) {
  sampling_.constraint = constraint_of(options);
  std::unique_ptr<engine::Executor> executor;
  if (engine::PagedExecutor::takes(plan)) {
    executor = page(plan, prompt);
  } else {
    auto single = std::make_unique<DecoderExecutor>(plan, options.decoder, options.session, 1);
    single_ = single.get();
    executor = std::move(single);
  }
  const engine::ExecutorLimits& limits = executor->limits();
  if (!limits.crossed.empty() && options.encoder.empty())
    throw usage_error("the plan reads '{}': give the plan that makes it with --encoder",
                      limits.crossed[0].name);
  capacity_ = limits.max_positions;
  if (paged_ != nullptr) capacity_ = std::min(capacity_, options.decoder.context);
  vocabulary_ = limits.vocabulary;
  if (!options.no_stop) {
    const auto add = [&](std::int64_t id) {
      sampling_.stop_tokens.push_back(static_cast<TokenId>(id));
    };
    std::ranges::for_each(stops, add);
    const auto& own = options.config.stop_tokens;
    for (const TokenId id : own)
      if (id < vocabulary_) add(id);
    for (std::int64_t id = 0; own.empty() && tokenizer != nullptr && id < vocabulary_; ++id)
      if (tokenizer->is_special(id)) add(id);
  }
  EngineOptions engine;
  if (tokenizer != nullptr) give_texts(*tokenizer, engine);
  engine.token_text = nullptr;  // the stream decodes the text itself
  engine_ = std::make_unique<Engine>(std::move(executor), std::move(engine));
  engine_->prepare(sampling_);
}

std::unique_ptr<engine::Executor> TextGenerator::page(const Plan& plan, std::int64_t prompt) {
  const DecoderOptions usual, &given = options_.decoder;
  if (given.ids != usual.ids || given.position != usual.position || given.mask != usual.mask ||
      given.logits != usual.logits || !given.states.empty())
    throw usage_error(
        "--ids-input, --position-input, --mask-input, --logits-output and --state name what a plan "
        "of one sequence has; '{}' is paged: leave them out, or compile the model with --serve=off",
        options_.plan);
  engine::PagedExecutorOptions options;
  options.session = options_.session;
  options.max_sequences = 1;
  const plan::ServingPlan sizes = engine::PagedExecutor::sizes_of(plan);
  const std::int64_t context =
      std::min<std::int64_t>(options_.decoder.context, sizes.sequence_positions);
  options.block_count =
      std::max(2, static_cast<int>((context + sizes.block_size - 1) / sizes.block_size));
  const std::int64_t chunk = std::min<std::int64_t>(
      {kChunk, sizes.tokens, sizes.samples, std::max<std::int64_t>(2, context)});
  options.max_step_tokens = static_cast<int>(chunk);
  options.ahead = {1};
  const auto add = [&](std::int64_t tokens) {
    if (tokens > 1) options.ahead.push_back(static_cast<int>(tokens));
  };
  // For a conversation prepares the largest prompts, so that memory does not grow later.
  add(prompt == 0 ? chunk : std::min(prompt, chunk));
  if (prompt > chunk) add(prompt % chunk);
  auto paged = std::make_unique<engine::PagedExecutor>(plan, options);
  paged_ = paged.get();
  return paged;
}

Session& TextGenerator::session() {
  return paged_ != nullptr ? paged_->session() : decoder()->session();
}

std::uint64_t TextGenerator::cache_bytes() {
  return paged_ != nullptr ? paged_->cache_bytes() : decoder()->cache_bytes();
}

std::uint64_t TextGenerator::valid_cache_bytes(std::int64_t position) {
  if (paged_ == nullptr) return decoder()->valid_cache_bytes(position);
  return paged_->plan().position_bytes * static_cast<std::uint64_t>(position);
}

std::uint64_t TextGenerator::weight_bytes() {
  if (paged_ == nullptr) return decoder()->weight_bytes();
  return weight_bytes_read(paged_->session().plan(), paged_->shapes_of_one(1));
}

Generated TextGenerator::generate(std::span<const std::int64_t> prompt, Stream& stream) {
  const auto tokens = std::ssize(prompt);
  for (const std::int64_t id : prompt)
    if (id < 0 || id > std::numeric_limits<TokenId>::max() ||
        (vocabulary_ > 0 && id >= vocabulary_))
      throw usage_error("token id {} is none of the model's {}", id, vocabulary_);
  const std::int64_t room = capacity_ - tokens + 1;
  if (room < 1)
    throw usage_error(
        "{} tokens do not fit into caches of {}: give a larger --context, or compile for more "
        "positions",
        tokens, capacity_);
  GenerationRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.encoded = encoded_;
  request.sampling = sampling_;
  request.sampling.max_tokens = std::min(options_.max_tokens, room);

  Generated result;
  const std::uint64_t known = engine_->stats().prefix_hit_tokens;
  const auto is_stop = [&](std::int64_t id) {
    return std::ranges::find(sampling_.stop_tokens, id) != sampling_.stop_tokens.end();
  };
  auto last = Clock::now();
  ask(*engine_, std::move(request), [&](const GenerationOutput& output) {
    for (const TokenId id : output.tokens) {
      const double us = microseconds_since(last);
      if (result.tokens.empty())
        result.first_us = us;
      else
        result.steps.push_back(us);
      last = Clock::now();
      result.tokens.push_back(id);
      if (!is_stop(id)) stream.add(id);
    }
    switch (output.finish) {
      case FinishReason::kNone:
        if (interrupted != 0) engine_->cancel(output.request);
        break;
      case FinishReason::kStop:
        result.stopped_by = is_stop(result.tokens.back()) ? "stop token" : "constraint";
        break;
      case FinishReason::kLength:
        result.stopped_by =
            std::ssize(result.tokens) >= options_.max_tokens ? "max tokens" : "context";
        break;
      case FinishReason::kCancelled:
      case FinishReason::kDeadline: result.stopped_by = "interrupt"; break;
      case FinishReason::kError: break;
    }
  });
  stream.finish();
  result.cached_tokens = engine_->stats().prefix_hit_tokens - known;
  return result;
}

}  // namespace sinter::tools
