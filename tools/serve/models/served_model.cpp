// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/served_model.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <optional>
#include <utility>

#include <sinter/plan.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "runtime/format_error.h"
#include "tools/generate/prompt.h"
#include "tools/generate/token_text.h"

namespace sinter::tools {
namespace {

/// Whether the plan takes token ids and gives logits, and has caches from token to token.
bool generates_text(const Plan& plan) {
  const auto has = [](const auto& bindings, const std::string& name) {
    return std::ranges::find(bindings, name, &BindingInfo::name) != bindings.end();
  };
  const auto is_cache = [](const BindingInfo& input) {
    return input.state || input.name.starts_with("past_");
  };
  return has(plan.inputs(), "input_ids") && has(plan.outputs(), "logits") &&
         std::ranges::any_of(plan.inputs(), is_cache);
}

EngineOptions engine_options(const ServedModelOptions& options) {
  EngineOptions engine;
  engine.max_waiting = options.waiting;
  engine.cache_bytes = options.cache_bytes;
  engine.state_bytes = options.state_bytes;
  engine.max_positions = static_cast<int>(std::min<std::int64_t>(options.context, INT_MAX));
  engine.max_sequences = options.sequences;
  engine.max_step_tokens = options.step_tokens;
  engine.prefix_cache = options.prefix_cache;
  engine.draft_tokens = engine::draft_tokens_of(options.draft_tokens, !options.draft.empty());
  return engine;
}

engine::ExecutorOfPlan paged_executor(const ServedPlans& plans, const EngineOptions& engine,
                                      const ServedModelOptions& options) {
  return engine::make_executor(plans.plan, plans.draft ? &*plans.draft : nullptr, engine,
                               options.session);
}

/// The plans that the options name.
ServedPlans load_plans(const ServedModelOptions& options) {
  if (options.open) return options.open();
  ServedPlans plans{.plan = Plan::load(options.plan, options.load)};
  if (!options.encoder.empty()) plans.encoder = Plan::load(options.encoder, options.load);
  if (!options.draft.empty()) plans.draft = Plan::load(options.draft, options.load);
  return plans;
}

}  // namespace

ServedModel::ServedModel(std::string name, ServedModelOptions options)
    : name_(std::move(name)), options_(std::move(options)), created_(std::time(nullptr)) {
  const ServedPlans plans = load_plans(options_);
  const Plan& plan = plans.plan;
  const std::optional<Plan>& encoder = plans.encoder;
  if (options_.tokenizer.empty()) options_.tokenizer = plans.tokenizer;
  target_ = plan.target();
  const bool sees = encoder && is_tower(*encoder);
  if (encoder && !sees && !SourceEncoder::takes(*encoder)) {
    load_speech(*encoder, plan);
    return;
  }
  if (encoder && !sees) Encoder::require_pair(*encoder, plan);
  if (!engine::PagedExecutor::takes(plan) && !generates_text(plan)) {
    TensorModelOptions tensors = options_.tensors;
    tensors.waiting = options_.waiting;
    const bool embeds = Embedder::takes(plan);
    tensors.pads = embeds && std::ranges::any_of(plan.inputs(), [](const BindingInfo& input) {
                     return input.name == "attention_mask";
                   });
    masks_ = tensors.pads;
    tensors.has_ladder = tensors.pads && plan.target() != "cpu";
    SessionOptions session = options_.session;
    constexpr std::size_t kLadder = 128;  // shapes
    if (tensors.has_ladder) session.graph_cache = std::max(session.graph_cache, kLadder);
    tensors_ = std::make_unique<TensorModel>(plan, session, tensors);
    if (embeds) {
      texts_ = EmbeddingFiles::in(plans.folder, options_.pooling);
      embedder_ = std::make_unique<Embedder>(*tensors_, texts_.pooling.value_or(Pooling::kMean),
                                             std::move(texts_.dense));
      if (!options_.tokenizer.empty()) {
        tokenizer_ = Tokenizer::load(options_.tokenizer);
        if (texts_.max_tokens) tokenizer_->truncate(*texts_.max_tokens);
        if (texts_.pairs) chat_ = ChatTemplate::beside(options_.tokenizer);
      }
    }
    return;
  }
  if (options_.generation_config) config_ = GenerationConfig::beside(options_.tokenizer);
  if (!options_.tokenizer.empty()) tokenizer_ = Tokenizer::load(options_.tokenizer);
  chat_ = options_.chat_template.empty() ? ChatTemplate::beside(options_.tokenizer)
                                         : ChatTemplate::load(options_.chat_template);
  if (!options_.tool_form.empty()) {
    tool_form_ = find_tool_form(options_.tool_form);
    if (tool_form_ == nullptr)
      throw usage_error("'{}' is not a known format of tool calls: {}", options_.tool_form,
                        tool_form_names());
  } else if (chat_) {
    tool_form_ = tool_form_of(chat_->text());
  }
  EngineOptions engine = engine_options(options_);
  auto made = with_context(fmt::format("'{}'", options_.plan),
                           [&] { return paged_executor(plans, engine, options_); });
  std::unique_ptr<engine::Executor> executor = std::move(made.executor);
  cache_bytes_ = made.cache_bytes;
  block_size_ = executor->limits().block_size;
  blocks_ = executor->limits().block_count;
  if (sees)
    load_vision(*encoder, plans.folder, executor->limits());
  else if (encoder)
    load_source(*encoder, plan, executor->limits());
  else if (!executor->limits().crossed.empty())
    throw usage_error("'{}' reads '{}': give the plan that makes it with --encoder", options_.plan,
                      executor->limits().crossed[0].name);
  positions_ = executor->limits().max_positions;
  if (tokenizer_) give_texts(*tokenizer_, engine, find_tokens(executor->limits().vocabulary));
  token_text_ = engine.token_text;
  engine_ = std::make_unique<Engine>(std::move(executor), std::move(engine));
}

ServedModel::ServedModel(std::string name, std::unique_ptr<engine::Executor> executor)
    : name_(std::move(name)),
      created_(std::time(nullptr)),
      positions_(executor->limits().max_positions),
      engine_(std::make_unique<Engine>(std::move(executor), engine_options(options_))) {}

ModelState ServedModel::state() const {
  if (engine_ == nullptr) return {};
  const auto failure = engine_->failure();
  return {!failure, failure.value_or("")};
}

void ServedModel::load_source(const Plan& encoder, const Plan& decoder,
                              const engine::ExecutorLimits& limits) {
  std::optional<std::int64_t> start = config_.decoder_start_token;
  if (!options_.start.empty()) {
    PromptOptions options;
    options.stops = {options_.start};
    start = with_context("--start", [&] { return stop_ids(options, tokenizer())[0]; });
  }
  if (!start || *start >= limits.vocabulary)
    throw usage_error(
        "'{}': no first token is known for its texts: give --start TOKEN, "
        "or "
        "decoder_start_token_id in generation_config.json beside the tokenizer",
        options_.plan);
  const auto& shape = limits.crossed[0].shape;
  source_ = std::make_unique<SourceEncoder>(encoder, decoder, shape[shape.size() - 2],
                                            static_cast<TokenId>(*start), options_.session);
}

void ServedModel::load_vision(const Plan& tower, const std::string& folder,
                              const engine::ExecutorLimits& limits) {
  if (options_.make_vision == nullptr)
    throw usage_error("'{}': this command is built without models that see", name_);
  if (!tokenizer_) throw usage_error("'{}' is a model that sees: give its --tokenizer", name_);
  const std::string own =
      folder.empty() ? std::filesystem::path(options_.tokenizer).parent_path().string() : folder;
  vision_ =
      options_.make_vision(tower, own, *tokenizer_, limits, options_.session, options_.waiting);
}

void ServedModel::load_speech(const Plan& encoder, const Plan& decoder) {
  if (options_.make_speech == nullptr)
    throw usage_error(
        "'{}': this command is built without models of speech; the one that tools/build makes "
        "(build/bin/sinter) has them",
        name_);
  if (options_.tokenizer.empty())
    throw usage_error("'{}' is a model of speech: give its --tokenizer", name_);
  tokenizer_ = Tokenizer::load(options_.tokenizer);
  speech_ = options_.make_speech(encoder, decoder, *tokenizer_, options_.session, options_.waiting);
}

std::map<TokenId, std::string> ServedModel::find_tokens(TokenId vocabulary) {
  std::map<TokenId, std::string> shown;
  if (tool_form_ != nullptr)
    for (const std::string_view token : tool_form_->tokens)
      if (const auto id = tokenizer_->id_of(token); id && *id < vocabulary)
        shown.emplace(static_cast<TokenId>(*id), token);
  for (const TokenId id : config_.stop_tokens)
    if (id < vocabulary) stop_tokens_.push_back(id);
  if (stop_tokens_.empty())
    for (TokenId id = 0; id < vocabulary; ++id)
      if (tokenizer_->is_special(id) && !shown.contains(id)) stop_tokens_.push_back(id);
  return shown;
}

}  // namespace sinter::tools
