// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/response_call.h"

#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/json_text.h"

namespace sinter::tools {

using nlohmann::ordered_json;

ResponseCall::ResponseCall(std::shared_ptr<ServedModel> model, ResponseRequest request,
                           std::string id)
    : AnswerCall(std::move(model), std::move(request.completion), id),
      echo_(std::move(request.echo)),
      id_(std::move(id)),
      created_(std::time(nullptr)) {}

std::optional<std::string> ResponseCall::next() {
  std::string events;
  if (!has_begun_) {
    has_begun_ = true;
    add_event("response.created", {{"response", response("in_progress")}}, events);
    add_event("response.in_progress", {{"response", response("in_progress")}}, events);
    return events;
  }
  const auto piece = call_.take();
  if (!piece) return std::nullopt;
  for (const ordered_json& choice : piece->at("choices")) take(choice, events);
  if (is_done()) end(events);
  return events;
}

std::string ResponseCall::whole() {
  std::string none;
  while (const auto piece = call_.take())
    for (const ordered_json& choice : piece->at("choices")) take(choice, none);
  if (!call_.error().empty()) throw ApiError(500, call_.error());
  end(none);
  return dump(response(finish_));
}

void ResponseCall::add_event(std::string_view type, const ordered_json& fields,
                             std::string& events) {
  if (!streams()) return;
  ordered_json event = {{"type", type}, {"sequence_number", events_++}};
  event.update(fields);
  events += event_text(type, dump(event));
}

void ResponseCall::take(const ordered_json& choice, std::string& events) {
  const ordered_json& delta = choice.at("delta");
  if (delta.contains("content") && delta["content"].is_string()) {
    const ordered_json& told = choice.at("logprobs");
    say(delta["content"].get<std::string>(),
        told.is_object() ? told.at("content") : ordered_json::array(), events);
  }
  if (delta.contains("tool_calls"))
    for (const ordered_json& call : delta["tool_calls"]) add_call(call, events);
  if (choice.at("finish_reason").is_string()) finish_ = choice["finish_reason"];
}

void ResponseCall::say(const std::string& text, const ordered_json& logprobs, std::string& events) {
  // Of a text that is one call, nothing is said.
  if (text.empty() && (!in_message_ || logprobs.empty())) return;
  const std::size_t index = in_message_ ? output_.size() - 1 : output_.size();
  if (!in_message_) {
    in_message_ = true;
    const ordered_json part = {{"type", "output_text"},
                               {"text", ""},
                               {"annotations", ordered_json::array()},
                               {"logprobs", ordered_json::array()}};
    ordered_json item = {{"id", fmt::format("msg_{}_{}", id_, index)},
                         {"type", "message"},
                         {"status", "in_progress"},
                         {"role", "assistant"},
                         {"content", ordered_json::array()}};
    add_event("response.output_item.added", {{"output_index", index}, {"item", item}}, events);
    item["content"].push_back(part);
    add_event(
        "response.content_part.added",
        {{"item_id", item["id"]}, {"output_index", index}, {"content_index", 0}, {"part", part}},
        events);
    output_.push_back(std::move(item));
  }
  ordered_json& part = output_.back()["content"][0];
  part["text"] = part["text"].get<std::string>() + text;
  for (const ordered_json& one : logprobs) part["logprobs"].push_back(one);
  add_event("response.output_text.delta",
            {{"item_id", output_.back()["id"]},
             {"output_index", index},
             {"content_index", 0},
             {"delta", text},
             {"logprobs", logprobs}},
            events);
}

void ResponseCall::end_message(std::string_view status, std::string& events) {
  if (!in_message_) return;
  in_message_ = false;
  const std::size_t index = output_.size() - 1;
  ordered_json& item = output_.back();
  item["status"] = status;
  const ordered_json place = {
      {"item_id", item["id"]}, {"output_index", index}, {"content_index", 0}};
  ordered_json done = place;
  done["text"] = item["content"][0]["text"];
  done["logprobs"] = item["content"][0]["logprobs"];
  add_event("response.output_text.done", done, events);
  done = place;
  done["part"] = item["content"][0];
  add_event("response.content_part.done", done, events);
  add_event("response.output_item.done", {{"output_index", index}, {"item", item}}, events);
}

void ResponseCall::add_call(const ordered_json& call, std::string& events) {
  end_message("completed", events);
  const std::size_t index = output_.size();
  const ordered_json& function = call.at("function");
  ordered_json item = {{"id", fmt::format("fc_{}_{}", id_, index)},
                       {"type", "function_call"},
                       {"status", "in_progress"},
                       {"call_id", call.at("id")},
                       {"name", function.at("name")},
                       {"arguments", ""}};
  add_event("response.output_item.added", {{"output_index", index}, {"item", item}}, events);
  item["arguments"] = function.at("arguments");
  item["status"] = "completed";
  const ordered_json place = {{"item_id", item["id"]}, {"output_index", index}};
  ordered_json event = place;
  event["delta"] = item["arguments"];
  add_event("response.function_call_arguments.delta", event, events);
  event = place;
  event["name"] = item["name"];
  event["arguments"] = item["arguments"];
  add_event("response.function_call_arguments.done", event, events);
  add_event("response.output_item.done", {{"output_index", index}, {"item", item}}, events);
  output_.push_back(std::move(item));
}

void ResponseCall::end(std::string& events) {
  if (!call_.error().empty())
    finish_ = "failed";
  else
    finish_ = finish_ == "stop" || finish_ == "tool_calls" ? "completed" : "incomplete";
  const std::string status = finish_ == "completed" ? "completed" : "incomplete";
  if (output_.empty() && finish_ != "failed") {
    // An answer without a word has a message, too.
    in_message_ = true;
    output_.push_back({{"id", fmt::format("msg_{}_0", id_)},
                       {"type", "message"},
                       {"status", "in_progress"},
                       {"role", "assistant"},
                       {"content",
                        {{{"type", "output_text"},
                          {"text", ""},
                          {"annotations", ordered_json::array()},
                          {"logprobs", ordered_json::array()}}}}});
    ordered_json item = output_.back();
    item["content"] = ordered_json::array();
    add_event("response.output_item.added", {{"output_index", 0}, {"item", item}}, events);
    add_event("response.content_part.added",
              {{"item_id", item["id"]},
               {"output_index", 0},
               {"content_index", 0},
               {"part", output_.back()["content"][0]}},
              events);
  }
  end_message(status, events);
  add_event("response." + finish_, {{"response", response(finish_)}}, events);
}

ordered_json ResponseCall::response(std::string_view status) const {
  ordered_json result = {
      {"id", id_},        {"object", "response"}, {"created_at", created_},
      {"status", status}, {"error", nullptr},     {"incomplete_details", nullptr}};
  if (status == "failed") result["error"] = {{"code", "server_error"}, {"message", call_.error()}};
  if (status == "incomplete") result["incomplete_details"] = {{"reason", "max_output_tokens"}};
  result.update(echo_);
  result["output"] = output_;
  result["usage"] = nullptr;
  if (status == "in_progress") return result;
  const ordered_json usage = call_.usage_piece().at("usage");
  result["usage"] = {{"input_tokens", usage.at("prompt_tokens")},
                     {"input_tokens_details", {{"cached_tokens", 0}}},
                     {"output_tokens", usage.at("completion_tokens")},
                     {"output_tokens_details", {{"reasoning_tokens", 0}}},
                     {"total_tokens", usage.at("total_tokens")}};
  return result;
}

}  // namespace sinter::tools
