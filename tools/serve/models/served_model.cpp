#include "tools/serve/models/served_model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include <sinter/plan.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "runtime/format_error.h"
#include "tools/generate/decoder_executor.h"
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
  const auto config = read_json(text.str(), path.string());
  return config.is_object() && config.contains("chat_template") ? path.string() : "";
}

/// Whether the plan takes token ids and gives logits, and has caches from token to token.
bool generates_text(const Plan& plan) {
  const DecoderOptions names;
  const auto has = [](const auto& bindings, const std::string& name) {
    return std::ranges::find(bindings, name, &BindingInfo::name) != bindings.end();
  };
  const auto is_cache = [](const BindingInfo& input) {
    return input.state || input.name.starts_with("past_");
  };
  return has(plan.inputs(), names.ids) && has(plan.outputs(), names.logits) &&
         std::ranges::any_of(plan.inputs(), is_cache);
}

EngineOptions engine_options(const ServedModelOptions& options) {
  EngineOptions engine;
  engine.max_waiting = options.waiting;
  engine.cache_bytes = options.cache_bytes;
  engine.max_sequences = options.sequences;
  engine.draft_tokens = engine::draft_tokens_of(options.draft_tokens, !options.draft.empty());
  return engine;
}

std::unique_ptr<engine::Executor> paged_executor(const Plan& plan, const EngineOptions& engine,
                                                 const ServedModelOptions& options) {
  std::optional<Plan> draft;
  if (!options.draft.empty()) draft = Plan::load(options.draft);
  return engine::make_executor(plan, draft ? &*draft : nullptr, engine, options.session).executor;
}

std::unique_ptr<engine::Executor> decoder_executor(const Plan& plan,
                                                   const ServedModelOptions& options) {
  constexpr int kSequences = 8;
  DecoderOptions decoder;
  decoder.context = options.context;
  return std::make_unique<DecoderExecutor>(plan, decoder, options.session,
                                           options.sequences == 0 ? kSequences : options.sequences);
}

}  // namespace

ServedModel::ServedModel(std::string name, ServedModelOptions options)
    : name_(std::move(name)), options_(std::move(options)), created_(std::time(nullptr)) {
  const Plan plan = Plan::load(options_.plan);
  const bool is_paged = engine::PagedExecutor::takes(plan);
  if (!is_paged && !generates_text(plan)) {
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
  if (!is_paged && (!options_.draft.empty() || options_.draft_tokens > 0))
    throw usage_error(
        "'{}' is of one sequence at a time, and checks no draft tokens: compile it with --serve",
        options_.plan);
  if (!options_.tokenizer.empty()) tokenizer_ = Tokenizer::load(options_.tokenizer);
  if (!options_.chat_template.empty())
    chat_ = ChatTemplate::load(options_.chat_template);
  else if (const auto beside = config_beside(options_.tokenizer); !beside.empty())
    chat_ = ChatTemplate::load(beside);
  EngineOptions engine = engine_options(options_);
  std::unique_ptr<engine::Executor> executor =
      is_paged ? paged_executor(plan, engine, options_) : decoder_executor(plan, options_);
  if (executor->limits().max_positions < 2)
    throw usage_error(
        "'{}': the caches hold no text: the plan leaves their length open, give --context TOKENS",
        options_.plan);
  positions_ = executor->limits().max_positions;
  if (tokenizer_) {
    for (TokenId id = 0; id < executor->limits().vocabulary; ++id)
      if (tokenizer_->is_special(id)) stop_tokens_.push_back(id);
    give_texts(*tokenizer_, engine);
  }
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

}  // namespace sinter::tools
