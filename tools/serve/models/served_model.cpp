// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/served_model.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include <sinter/plan.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "runtime/format_error.h"
#include "tools/generate/prompt.h"
#include "tools/generate/token_text.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

/// tokenizer_config.json beside a tokenizer, if it has a chat template; else empty.
std::string config_beside(const std::string& tokenizer) {
  if (tokenizer.empty()) return "";
  const auto path = std::filesystem::path(tokenizer).replace_filename("tokenizer_config.json");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return "";
  const auto config = read_json(text.str(), path.string(), kModelFileLimits);
  return config.is_object() && config.contains("chat_template") ? path.string() : "";
}

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
  engine.max_positions = static_cast<int>(std::min<std::int64_t>(options.context, INT_MAX));
  engine.max_sequences = options.sequences;
  engine.max_step_tokens = options.step_tokens;
  engine.prefix_cache = options.prefix_cache;
  engine.draft_tokens = engine::draft_tokens_of(options.draft_tokens, !options.draft.empty());
  return engine;
}

engine::ExecutorOfPlan paged_executor(const Plan& plan, const EngineOptions& engine,
                                      const ServedModelOptions& options) {
  std::optional<Plan> draft;
  if (!options.draft.empty()) draft = Plan::load(options.draft, options.load);
  return engine::make_executor(plan, draft ? &*draft : nullptr, engine, options.session);
}

}  // namespace

ServedModel::ServedModel(std::string name, ServedModelOptions options)
    : name_(std::move(name)), options_(std::move(options)), created_(std::time(nullptr)) {
  const Plan plan = Plan::load(options_.plan, options_.load);
  target_ = plan.target();
  std::optional<Plan> encoder;
  if (!options_.encoder.empty()) encoder = Plan::load(options_.encoder, options_.load);
  if (encoder && !SourceEncoder::takes(*encoder)) {
    load_speech(*encoder, plan);
    return;
  }
  if (encoder) Encoder::require_pair(*encoder, plan);
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
      embedder_ = std::make_unique<Embedder>(*tensors_, options_.pooling);
      if (!options_.tokenizer.empty()) tokenizer_ = Tokenizer::load(options_.tokenizer);
    }
    return;
  }
  if (options_.generation_config) config_ = GenerationConfig::beside(options_.tokenizer);
  if (!options_.tokenizer.empty()) tokenizer_ = Tokenizer::load(options_.tokenizer);
  if (!options_.chat_template.empty())
    chat_ = ChatTemplate::load(options_.chat_template);
  else if (const auto beside = config_beside(options_.tokenizer); !beside.empty())
    chat_ = ChatTemplate::load(beside);
  if (!options_.tool_form.empty()) {
    tool_form_ = find_tool_form(options_.tool_form);
    if (tool_form_ == nullptr)
      throw usage_error("'{}' is no form of calls of tools: there are {}", options_.tool_form,
                        tool_form_names());
  } else if (chat_) {
    tool_form_ = tool_form_of(chat_->text());
  }
  EngineOptions engine = engine_options(options_);
  auto made = with_context(fmt::format("'{}'", options_.plan),
                           [&] { return paged_executor(plan, engine, options_); });
  std::unique_ptr<engine::Executor> executor = std::move(made.executor);
  cache_bytes_ = made.cache_bytes;
  block_size_ = executor->limits().block_size;
  blocks_ = executor->limits().block_count;
  if (encoder)
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
        "'{}': no token of the model's is said to be the first of its texts: give --start TOKEN, "
        "or "
        "decoder_start_token_id in generation_config.json beside the tokenizer",
        options_.plan);
  const auto& shape = limits.crossed[0].shape;
  source_ = std::make_unique<SourceEncoder>(encoder, decoder, shape[shape.size() - 2],
                                            static_cast<TokenId>(*start), options_.session);
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
