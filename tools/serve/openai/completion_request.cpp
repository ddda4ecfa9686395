// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/completion_request.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "runtime/sampling/random.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/constraint_fields.h"
#include "tools/serve/api/limits.h"
#include "tools/serve/api/request_fields.h"
#include "tools/serve/openai/messages.h"
#include "tools/serve/openai/sampling_fields.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

}  // namespace

std::string model_of(const json& body) {
  const auto found = body.find("model");
  if (found == body.end() || found->is_null()) return "";
  if (!found->is_string()) RequestFields::fail("model", "is no text");
  return found->get<std::string>();
}

namespace {

void take_word(RequestFields& fields, const char* name, std::initializer_list<const char*> words,
               std::string_view instead) {
  const json* value = fields.take(name);
  if (value == nullptr) return;
  std::string all;
  for (const char* word : words) {
    if (*value == word) return;
    all += fmt::format("{}'{}'", all.empty() ? "" : ", ", word);
  }
  RequestFields::fail(name, fmt::format("is none of {}{}", all, instead));
}

/// What OpenAI's API lets a server do nothing about; what would need something done is refused.
void take_hints(RequestFields& fields) {
  take_word(fields, "service_tier", {"auto", "default"},
            ": there is one tier; 'priority', a number, orders requests");
  take_word(fields, "reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh"}, "");
  take_word(fields, "verbosity", {"low", "medium", "high"}, "");
  take_word(fields, "prompt_cache_retention", {"in_memory", "in-memory", "24h"}, "");
  fields.refuse_unless("store", false, "nothing is stored; leave it out");
  fields.refuse_unless("modalities", json::array({"text"}), "answers are text");
  for (const char* name : {"safety_identifier", "prompt_cache_key"})
    if (const json* value = fields.take(name); value != nullptr && !value->is_string())
      RequestFields::fail(name, "is no text");
  if (const json* value = fields.take("prediction"); value != nullptr && !value->is_object())
    RequestFields::fail("prediction", "is no object");
}

void add_prompt(const ServedModel& model, GenerationRequest one, CompletionRequest& request) {
  request.prompt_tokens += one.prompt.size();
  if (model.source() != nullptr) model.source()->read(one);
  request.prompts.push_back(std::move(one));
}

/// What both forms have.
CompletionRequest common_of(RequestFields& fields, const ServedModel& model,
                            GenerationRequest& one) {
  fields.take("model");
  CompletionRequest request;
  request.stream = fields.flag("stream");
  request.token_ids = fields.flag("return_token_ids", model.tokenizer() == nullptr);
  if (const json* options = fields.take("stream_options")) {
    if (!options->is_object()) RequestFields::fail("stream_options", "is no object");
    RequestFields own(*options);
    request.include_usage = own.flag("include_usage");
    own.flag("include_obfuscation");  // pads pieces against who listens; a hint
    own.finish();
  }
  take_hints(fields);
  one.sampling = take_sampling(fields, model);
  one.priority = static_cast<int>(fields.integer("priority", 0, -1000, 1000));
  const double timeout = fields.number("timeout_seconds", 0, 0, kMostTimeout);
  if (timeout > 0)
    one.deadline =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                               std::chrono::duration<double>(timeout));
  return request;
}

}  // namespace

CompletionRequest parse_completion(const json& body, std::string_view text,
                                   const ServedModel& model) {
  RequestFields fields(body);
  GenerationRequest one;
  CompletionRequest request = common_of(fields, model, one);
  one.sampling.max_tokens = fields.integer("max_tokens", 16, 1, INT32_MAX);
  if (fields.take("logprobs") != nullptr)
    one.sampling.logprobs = static_cast<int>(fields.integer("logprobs", 0, 0, kMostLogprobs));
  fields.refuse_unless("echo", false, "");
  fields.refuse_unless("suffix", "", "");
  fields.refuse_unless("best_of", one.sampling.samples, "'n' texts are all returned");
  auto prompts = fields.texts("prompt", model, kMostPrompts);
  const auto constraint = take_constraint(fields, text);
  fields.finish();
  if (constraint) set_constraint(*constraint, model, one.sampling);
  // Each text draws for itself: with the seed of its number among all texts of the request.
  const std::uint64_t seed = one.sampling.seed;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    one.prompt = std::move(prompts[i]);
    one.sampling.seed = sampling::seed_of_sample(seed, static_cast<int>(i) * one.sampling.samples);
    add_prompt(model, one, request);
  }
  return request;
}

CompletionRequest parse_chat(const json& body, std::string_view text, const ServedModel& model) {
  RequestFields fields(body);
  GenerationRequest one;
  CompletionRequest request = common_of(fields, model, one);
  request.form = ApiForm::kChat;
  const auto limit = fields.integer("max_tokens", 0, 1, INT32_MAX);
  const auto newer = fields.integer("max_completion_tokens", limit, 1, INT32_MAX);
  const bool with_logprobs = fields.flag("logprobs");
  const auto likeliest = fields.integer("top_logprobs", 0, 0, kMostLogprobs);
  if (with_logprobs) one.sampling.logprobs = static_cast<int>(likeliest);
  auto constraint = take_constraint(fields, text);
  request.parallel_calls = fields.flag("parallel_tool_calls", true);
  Conversation conversation = take_conversation(fields, text, model);
  fields.finish();
  request.calls = conversation.calls;
  std::optional<FieldConstraint> call = std::move(conversation.wanted);
  if (constraint && call)
    RequestFields::fail(constraint->field, "contradicts 'tool_choice', which asks for a call");
  if (call) constraint = std::move(call);
  if (constraint) set_constraint(*constraint, model, one.sampling);
  if (!conversation.images.empty()) {
    ImagePrompt prompt =
        model.vision()->read(conversation.prompt, conversation.images, model.most_tokens());
    one.prompt = std::move(prompt.tokens);
    one.vectors = std::move(prompt.vectors);
  } else {
    const auto ids = model.tokenizer()->encode(conversation.prompt, false, model.most_tokens());
    one.prompt = {ids.begin(), ids.end()};
  }
  // Without a limit a text goes on until it ends, or the context or the cache does.
  const std::int64_t most =
      model.generation_config().max_new_tokens.value_or(SamplingParameters::kNoLimit);
  one.sampling.max_tokens = newer > 0 ? newer : most;
  add_prompt(model, std::move(one), request);
  return request;
}

}  // namespace sinter::tools
