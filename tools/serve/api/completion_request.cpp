#include "tools/serve/api/completion_request.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/json/read_json.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/constraint_fields.h"
#include "tools/serve/api/limits.h"
#include "tools/serve/api/request_fields.h"
#include "tools/serve/api/tool_calls.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void read_stops(RequestFields& fields, const ServedModel& model, SamplingParameters& sampling) {
  if (!fields.flag("ignore_eos")) sampling.stop_tokens = model.stop_tokens();
  const json* stop = fields.take("stop");
  if (stop == nullptr) return;
  const auto add = [&](const json& text) {
    if (!text.is_string() || text.get<std::string>().empty())
      RequestFields::fail("stop", "is neither text nor a list of texts");
    const auto& given = text.get_ref<const std::string&>();
    if (given.size() > kMostStopBytes)
      RequestFields::fail(
          "stop", fmt::format("has a text of {} bytes: {} at most", given.size(), kMostStopBytes));
    sampling.stop_strings.push_back(given);
  };
  if (stop->is_array() && stop->size() > kMostStops)
    RequestFields::fail("stop", fmt::format("has {} texts: {} at most", stop->size(), kMostStops));
  if (stop->is_array())
    for (const json& text : *stop) add(text);
  else
    add(*stop);
  if (!sampling.stop_strings.empty() && model.tokenizer() == nullptr)
    RequestFields::fail(
        "stop", fmt::format("needs text, and '{}' is served without a tokenizer", model.name()));
}

void read_bias(RequestFields& fields, SamplingParameters& sampling) {
  const json* bias = fields.take("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) RequestFields::fail("logit_bias", "is no object");
  if (bias->size() > kMostBiases)
    RequestFields::fail("logit_bias",
                        fmt::format("has {} tokens: {} at most", bias->size(), kMostBiases));
  for (const auto& [token, value] : bias->items()) {
    const bool is_id = !token.empty() && token.size() < 10 &&
                       token.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id)
      RequestFields::fail("logit_bias", fmt::format("has '{}', which is no token id",
                                                    token.substr(0, kMostShownBytes)));
    if (!value.is_number() || std::abs(value.get<double>()) > 100)
      RequestFields::fail("logit_bias",
                          fmt::format("of {} is {}: expected -100 to 100", token, value.dump()));
    sampling.logit_bias.emplace_back(std::stoi(token), value.get<float>());
  }
}

SamplingParameters sampling_of(RequestFields& fields, const ServedModel& model) {
  SamplingParameters sampling;
  sampling.temperature = fields.number("temperature", 1, 0, 100);
  sampling.top_p = fields.number("top_p", 1, 0, 1);
  sampling.top_k = fields.integer("top_k", 0, -1, INT32_MAX);
  sampling.top_k = std::max<std::int64_t>(sampling.top_k, 0);  // -1 is all, too
  sampling.min_p = fields.number("min_p", 0, 0, 1);
  sampling.repetition_penalty = fields.number("repetition_penalty", 1, 1e-3, 1e3);
  if (const json* seed = fields.take("seed")) {
    if (!seed->is_number_integer()) RequestFields::fail("seed", "is no integer");
    sampling.seed = seed->is_number_unsigned()
                        ? seed->get<std::uint64_t>()
                        : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  } else {
    // Requests that name none differ from each other.
    static std::atomic<std::uint64_t> next =
        static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    sampling.seed = next++;
  }
  sampling.samples = static_cast<int>(fields.integer("n", 1, 1, kMostSamples));
  read_stops(fields, model, sampling);
  read_bias(fields, sampling);
  return sampling;
}

}  // namespace

std::string model_of(const json& body) {
  const auto found = body.find("model");
  if (found == body.end() || found->is_null()) return "";
  if (!found->is_string()) RequestFields::fail("model", "is no text");
  return found->get<std::string>();
}

namespace {

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
    own.finish();
  }
  one.sampling = sampling_of(fields, model);
  one.priority = static_cast<int>(fields.integer("priority", 0, -1000, 1000));
  const double timeout = fields.number("timeout_seconds", 0, 0, kMostTimeout);
  if (timeout > 0)
    one.deadline =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                               std::chrono::duration<double>(timeout));
  fields.refuse_unless("presence_penalty", 0, "'repetition_penalty' is");
  fields.refuse_unless("frequency_penalty", 0, "'repetition_penalty' is");
  return request;
}

/// A message's content: text, or parts of text, which are joined.
std::string content_of(const ordered_json& content) {
  if (content.is_null()) return "";
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array())
    RequestFields::fail("messages", "has a content that is neither text nor parts");
  for (const ordered_json& part : content) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" ||
        !part.contains("text") || !part["text"].is_string())
      RequestFields::fail("messages", "has a part that is no text: other parts are not supported");
    text += part["text"].get<std::string>();
  }
  return text;
}

/// Whether `tool_choice` asks for a call.
bool wants_call(const json* choice) {
  return choice != nullptr && (*choice == "required" || choice->is_object());
}

/// `calls`: whether answers may have calls of tools in a form that is known. `constraint`: of a
/// call that is asked for.
std::string conversation_of(RequestFields& fields, std::string_view text, const ServedModel& model,
                            bool& calls, std::optional<FieldConstraint>& constraint) {
  const json* messages = fields.take("messages");
  if (messages == nullptr) RequestFields::fail("messages", "is missing");
  if (!messages->is_array() || messages->empty())
    RequestFields::fail("messages", "is no list of messages");
  if (messages->size() > kMostMessages)
    RequestFields::fail("messages",
                        fmt::format("has {}: {} at most", messages->size(), kMostMessages));
  ordered_json all = read_ordered_member(text, "messages");
  for (ordered_json& message : all) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      RequestFields::fail("messages", "has one without a 'role'");
    ordered_json& content = message["content"];  // null if it is not there
    content = content_of(content);
    parse_arguments(message);
  }
  const json* tools = fields.take("tools");
  if (tools != nullptr && !tools->is_array()) RequestFields::fail("tools", "is no list");
  if (tools != nullptr && tools->size() > kMostTools)
    RequestFields::fail("tools", fmt::format("has {}: {} at most", tools->size(), kMostTools));
  const json* choice = fields.take("tool_choice");
  if (choice != nullptr && *choice != "auto" && *choice != "none" && !wants_call(choice))
    RequestFields::fail("tool_choice",
                        "is neither 'auto', 'none' nor 'required', and names no function");
  const bool has_tools = tools != nullptr && (choice == nullptr || *choice != "none");
  calls = has_tools && ToolCallSplitter::takes(model.chat_template()->text());
  if (wants_call(choice)) {
    if (!has_tools) RequestFields::fail("tool_choice", "asks for a call, and there are no 'tools'");
    if (!calls)
      RequestFields::fail("tool_choice", fmt::format("asks for a call, and the chat template of "
                                                     "'{}' has them in a form that is not known",
                                                     model.name()));
    constraint = constraint_of_call(*tools, *choice, text);
  }
  return model.chat_template()->apply(
      all, has_tools ? read_ordered_member(text, "tools") : ordered_json());
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
  for (auto& prompt : prompts) {
    one.prompt = std::move(prompt);
    request.prompts.push_back(one);
  }
  return request;
}

CompletionRequest parse_chat(const json& body, std::string_view text, const ServedModel& model) {
  if (model.tokenizer() == nullptr || model.chat_template() == nullptr)
    throw ApiError(501, fmt::format("'{}' is served without a chat template: start the server with "
                                    "--tokenizer and --chat-template, or send text to "
                                    "/v1/completions",
                                    model.name()));
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
  fields.refuse_unless("parallel_tool_calls", true, "");
  std::optional<FieldConstraint> call;
  const auto ids = model.tokenizer()->encode(
      conversation_of(fields, text, model, request.tool_calls, call), false, model.most_tokens());
  fields.finish();
  if (constraint && call)
    RequestFields::fail(constraint->field, "contradicts 'tool_choice', which asks for a call");
  if (call) constraint = std::move(call);
  if (constraint) set_constraint(*constraint, model, one.sampling);
  one.prompt = {ids.begin(), ids.end()};
  one.sampling.max_tokens = newer > 0 ? newer : SamplingParameters::kNoLimit;
  request.prompts.push_back(std::move(one));
  return request;
}

}  // namespace sinter::tools
