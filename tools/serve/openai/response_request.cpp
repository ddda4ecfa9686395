// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/response_request.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/constraint_fields.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/request_fields.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Fields that mean the same in both forms, beside those of sampling_rows().
constexpr std::array kSame = {"model",
                              "stream",
                              "seed",
                              "stop",
                              "ignore_eos",
                              "min_tokens",
                              "logit_bias",
                              "priority",
                              "timeout_seconds",
                              "parallel_tool_calls",
                              "service_tier",
                              "store",
                              "safety_identifier",
                              "prompt_cache_key",
                              "prompt_cache_retention"};

/// What is written in other fields of a conversation.
constexpr std::array<std::pair<const char*, const char*>, 5> kRenamed = {
    {{"messages", "input"},
     {"response_format", "text"},
     {"max_completion_tokens", "max_output_tokens"},
     {"reasoning_effort", "reasoning"},
     {"verbosity", "text"}}};

std::string string_of(const json& item, const char* key) {
  if (!item.contains(key) || !item[key].is_string())
    RequestFields::fail("input", fmt::format("has an item without a text as '{}'", key));
  return item[key].get<std::string>();
}

/// A text, or parts of text.
ordered_json item_text(const json& content) {
  if (content.is_string()) return content;
  if (!content.is_array())
    RequestFields::fail("input", "has a content that is neither text nor parts");
  std::string text;
  for (const json& part : content) {
    const std::string type = string_of(part, "type");
    if (type != "input_text" && type != "output_text" && type != "text" && type != "refusal")
      RequestFields::fail("input",
                          fmt::format("has a part of type '{}': only text is supported", type));
    text += string_of(part, type == "refusal" ? "refusal" : "text");
  }
  return text;
}

/// Calls stand in the assistant's message in front of them, if that is the last one.
void add_call(const json& item, ordered_json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", nullptr}});
  messages.back()["tool_calls"].push_back(
      {{"id", string_of(item, "call_id")},
       {"type", "function"},
       {"function",
        {{"name", string_of(item, "name")}, {"arguments", string_of(item, "arguments")}}}});
}

void add_item(const json& item, ordered_json& messages) {
  if (!item.is_object()) RequestFields::fail("input", "has an item that is no object");
  const json type = item.value("type", json("message"));
  if (type == "message") {
    if (!item.contains("content"))
      RequestFields::fail("input", "has a message without a 'content'");
    messages.push_back(
        {{"role", string_of(item, "role")}, {"content", item_text(item["content"])}});
  } else if (type == "function_call") {
    add_call(item, messages);
  } else if (type == "function_call_output") {
    if (!item.contains("output")) RequestFields::fail("input", "has an item without an 'output'");
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", string_of(item, "call_id")},
                        {"content", item_text(item["output"])}});
  } else {
    RequestFields::fail("input", fmt::format("has an item of type {}: there are message, "
                                             "function_call and function_call_output",
                                             type.dump()));
  }
}

ordered_json messages_of_items(RequestFields& fields) {
  ordered_json messages = ordered_json::array();
  if (const json* instructions = fields.take("instructions")) {
    if (!instructions->is_string()) RequestFields::fail("instructions", "is no text");
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  const json* input = fields.take("input");
  if (input == nullptr) RequestFields::fail("input", "is missing");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
  } else {
    if (!input->is_array() || input->empty())
      RequestFields::fail("input", "is neither text nor a list of items");
    for (const json& item : *input) add_item(item, messages);
  }
  return messages;
}

/// Functions as a conversation has them: in an object of their own.
ordered_json tools_of(const ordered_json& tools) {
  ordered_json result = ordered_json::array();
  for (const ordered_json& tool : tools) {
    if (!tool.is_object() || !tool.contains("type") || tool["type"] != "function")
      RequestFields::fail("tools",
                          "has one that is no function: only functions, which the client "
                          "calls, are supported");
    ordered_json function = tool;
    function.erase("type");
    result.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return result;
}

void put_text(RequestFields& fields, std::string_view body, ordered_json& chat) {
  const json* given = fields.take("text");
  if (given == nullptr) return;
  if (!given->is_object()) RequestFields::fail("text", "is no object");
  const ordered_json ordered = in_order(body, "text", *given);
  RequestFields own(*given);
  if (const json* verbosity = own.take("verbosity")) chat["verbosity"] = *verbosity;
  const json* format = own.take("format");
  own.finish();
  if (format == nullptr) return;
  if (!format->is_object()) RequestFields::fail("text", "has a 'format' that is no object");
  ordered_json named = ordered.at("format");
  if (named.value("type", ordered_json()) == "json_schema") {
    named.erase("type");
    named = {{"type", "json_schema"}, {"json_schema", std::move(named)}};
  }
  chat["response_format"] = std::move(named);
}

void put_tools(RequestFields& fields, std::string_view body, ordered_json& chat) {
  if (const json* tools = fields.take("tools")) {
    if (!tools->is_array()) RequestFields::fail("tools", "is no list");
    chat["tools"] = tools_of(in_order(body, "tools", *tools));
  }
  const json* choice = fields.take("tool_choice");
  if (choice == nullptr) return;
  chat["tool_choice"] = *choice;
  if (choice->is_object() && choice->value("type", json()) == "function")
    chat["tool_choice"] = {{"type", "function"},
                           {"function", {{"name", choice->value("name", json())}}}};
}

void put_reasoning(RequestFields& fields, ordered_json& chat) {
  const json* reasoning = fields.take("reasoning");
  if (reasoning == nullptr) return;
  if (!reasoning->is_object()) RequestFields::fail("reasoning", "is no object");
  RequestFields own(*reasoning);
  if (const json* effort = own.take("effort")) chat["reasoning_effort"] = *effort;
  own.take("summary");  // of reasoning, which comes as text
  own.take("generate_summary");
  own.finish();
}

void put_included(RequestFields& fields, ordered_json& chat) {
  const json* list = fields.take("include");
  if (list == nullptr) return;
  if (!list->is_array()) RequestFields::fail("include", "is no list");
  for (const json& name : *list) {
    if (name == "message.output_text.logprobs")
      chat["logprobs"] = true;
    else if (name != "reasoning.encrypted_content")  // there is none
      RequestFields::fail(
          "include", fmt::format("has {}: there is message.output_text.logprobs", name.dump()));
  }
}

ordered_json chat_of(RequestFields& fields, std::string_view text) {
  ordered_json chat;
  for (const char* name : kSame)
    if (const json* value = fields.take(name)) chat[name] = *value;
  for (const SamplingRow& row : sampling_rows())
    if (const json* value = fields.take(row.name)) chat[row.name] = *value;
  chat["messages"] = messages_of_items(fields);
  if (const json* most = fields.take("max_output_tokens")) chat["max_completion_tokens"] = *most;
  put_text(fields, text, chat);
  put_tools(fields, text, chat);
  put_reasoning(fields, chat);
  put_included(fields, chat);
  if (const json* likeliest = fields.take("top_logprobs"); likeliest != nullptr) {
    chat["top_logprobs"] = *likeliest;
    chat["logprobs"] = true;
  }
  if (const json* options = fields.take("stream_options")) {
    if (!options->is_object()) RequestFields::fail("stream_options", "is no object");
    chat["stream_options"] = *options;
  }
  fields.refuse_unless("previous_response_id", nullptr,
                       "nothing is stored; send the items of the conversation as 'input'");
  fields.refuse_unless("conversation", nullptr,
                       "nothing is stored; send the items of the conversation as 'input'");
  fields.refuse_unless("background", false, "send the request and wait, or 'stream'");
  fields.refuse_unless("truncation", "disabled", "shorten the 'input'");
  fields.refuse_unless("max_tool_calls", nullptr, "it is of tools that a server calls");
  fields.finish();
  return chat;
}

ordered_json echo_of(const json& body, const CompletionRequest& request, const ServedModel& model) {
  const auto given = [&](const char* name, ordered_json otherwise) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? std::move(otherwise) : ordered_json(*found);
  };
  const SamplingParameters& sampling = request.prompts.front().sampling;
  return {{"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"metadata", given("metadata", ordered_json::object())},
          {"model", model.name()},
          {"parallel_tool_calls", request.parallel_calls},
          {"previous_response_id", nullptr},
          {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"service_tier", "default"},
          {"store", false},
          {"temperature", sampling.temperature},
          {"text", given("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", ordered_json::array())},
          {"top_p", sampling.top_p},
          {"truncation", "disabled"},
          {"user", given("user", nullptr)}};
}

}  // namespace

ResponseRequest parse_response(const json& body, std::string_view text, const ServedModel& model) {
  RequestFields fields(body);
  const ordered_json chat = chat_of(fields, text);
  try {
    const std::string written = dump(chat);
    ResponseRequest result;
    result.completion = parse_chat(parse_object(written), written, model);
    result.echo = echo_of(body, result.completion, model);
    return result;
  } catch (const ApiError& error) {
    // As the client has named it.
    for (const auto& [inner, own] : kRenamed) {
      const std::string quoted = fmt::format("'{}'", inner), message = error.what();
      if (error.parameter() == inner && message.starts_with(quoted))
        throw ApiError(error.status(), fmt::format("'{}'{}", own, message.substr(quoted.size())),
                       own);
    }
    throw;
  }
}

}  // namespace sinter::tools
