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
#include "tools/generate/weight_bytes.h"

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

void Interrupts::reset() { interrupted = 0; }

Interrupts::Interrupts(bool ends_texts) {
  reset();
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = (ends_texts ? 0 : static_cast<int>(SA_RESETHAND)) | SA_RESTART;
  sigaction(SIGINT, &action, &previous_);
}

std::string flag_of(const SamplingRow& row) {
  std::string flag = std::string("--") + row.name;
  std::ranges::replace(flag, '_', '-');
  return flag;
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
  const auto temperature = options.draws.value("temperature");
  const bool draws = !options.greedy && !temperature && options.config.do_sample.value_or(false);
  if (!temperature && !draws) {
    const auto refuse = [](const std::string& flag) {
      throw usage_error("{} is of a draw: give --temperature", flag);
    };
    for (const GivenDraw& draw : options.draws.given)
      if (draw.value() && draw.row->of_draws) refuse(flag_of(*draw.row));
    if (options.seed) refuse("--seed");
  }
  SamplingParameters sampling;
  if (!options.greedy) {
    sampling.temperature = 1;
    options.config.apply(sampling);
  }
  if (!draws) sampling.temperature = 0;
  for (const GivenDraw& draw : options.draws.given)
    if (const auto value = draw.value()) draw.row->set(sampling, *value);
  sampling.seed = options.seed.value_or(0);
  engine::check_sampling(sampling, 0);
  return sampling;
}

TextGenerator::TextGenerator(const GenerateArguments& options, const Plan& plan,
                             std::int64_t prompt, const std::vector<std::int64_t>& stops,
                             const Tokenizer* tokenizer, bool has_encoder)
    : options_(options), sampling_(sampling_of(options)) {
  sampling_.constraint = constraint_of(options);
  auto executor = page(plan, prompt);
  executor_ = executor.get();
  const engine::ExecutorLimits& limits = executor->limits();
  if (!limits.crossed.empty() && !has_encoder)
    throw usage_error("the plan reads '{}': give the plan that makes it with --encoder",
                      limits.crossed[0].name);
  capacity_ = std::min<std::int64_t>(limits.max_positions, options.context);
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

std::unique_ptr<engine::PagedExecutor> TextGenerator::page(const Plan& plan,
                                                           std::int64_t prompt) const {
  engine::PagedExecutorOptions options;
  options.session = options_.session;
  options.max_sequences = 1;
  const plan::ServingPlan sizes = engine::PagedExecutor::sizes_of(plan);
  const std::int64_t context = std::min<std::int64_t>(options_.context, sizes.sequence_positions);
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
  return std::make_unique<engine::PagedExecutor>(plan, options);
}

std::uint64_t TextGenerator::weight_bytes() {
  return weight_bytes_read(session().plan(), executor_->shapes_of_one(1));
}

Generated TextGenerator::generate(std::span<const std::int64_t> prompt, Stream& stream) {
  const auto tokens = std::ssize(prompt);
  for (const std::int64_t id : prompt)
    if (id < 0 || id > std::numeric_limits<TokenId>::max() ||
        (vocabulary_ > 0 && id >= vocabulary_))
      throw usage_error(
          "token id {} is not in the model's vocabulary of {}: is the tokenizer another model's?",
          id, vocabulary_);
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
