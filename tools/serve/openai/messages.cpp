// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/messages.h"

#include <fmt/format.h>
#include <sinter/error.h>

#include "tools/json/base64.h"
#include "tools/json/read_json.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/limits.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The bytes of "data:image/..;base64,..", since the server fetches nothing.
std::string bytes_of_image_url(std::string_view url) {
  constexpr std::string_view kStart = "data:image/", kForm = ";base64,";
  const std::size_t form = url.substr(0, kMostShownBytes).find(kForm);
  if (!url.starts_with(kStart) || form == std::string_view::npos)
    RequestFields::fail("messages",
                        "has an image that is no data URL (data:image/png;base64,..): none is "
                        "fetched");
  const std::string_view text = url.substr(form + kForm.size());
  if (text.size() / 4 * 3 > kMostImageFileBytes)
    RequestFields::fail("messages", fmt::format("has an image of {} bytes: {} at most",
                                                text.size() / 4 * 3, kMostImageFileBytes));
  auto bytes = bytes_of_base64(text);
  if (!bytes) RequestFields::fail("messages", "has an image that is no base64");
  return *std::move(bytes);
}

/// The URL of a part that is an image; null if it is none.
const std::string* image_url_of(const ordered_json& part) {
  if (part["type"] != "image_url") return nullptr;
  const auto image = part.find("image_url");
  const ordered_json* url = image == part.end() ? nullptr : &*image;
  if (url != nullptr && url->is_object()) {
    for (const auto& [key, value] : url->items())
      if (key != "url" && key != "detail")
        RequestFields::fail("messages", "has an image with a field that is not known");
    const auto own = url->find("url");
    url = own == url->end() ? nullptr : &*own;
  }
  if (url == nullptr || !url->is_string())
    RequestFields::fail("messages", "has an image without a 'url'");
  return &url->get_ref<const std::string&>();
}

/// A message's content as parts: texts, and marks of `images`.
ordered_json parts_of(const ordered_json& content, const ServedModel& model,
                      std::vector<std::string>& images) {
  ordered_json parts = ordered_json::array();
  const auto add_text = [&](const ordered_json& text) {
    parts.push_back({{"type", "text"}, {"text", text}});
  };
  if (content.is_null()) return parts;
  if (content.is_string()) {
    add_text(content);
    return parts;
  }
  if (!content.is_array())
    RequestFields::fail("messages", "has a content that is neither text nor parts");
  for (const ordered_json& part : content) {
    const bool has_type = part.is_object() && part.contains("type") && part["type"].is_string();
    if (has_type && part["type"] == "text" && part.contains("text") && part["text"].is_string()) {
      add_text(part["text"]);
      continue;
    }
    const std::string* const url = has_type ? image_url_of(part) : nullptr;
    if (url == nullptr)
      RequestFields::fail(
          "messages", "has a part that is neither text nor image_url: others are not supported");
    if (model.vision() == nullptr)
      RequestFields::fail("messages",
                          fmt::format("has an image, and '{}' reads texts alone", model.name()));
    if (images.size() == kMostImages)
      RequestFields::fail("messages", fmt::format("has more than {} images", kMostImages));
    images.push_back(bytes_of_image_url(*url));
    parts.push_back({{"type", "image"}});
  }
  return parts;
}

/// Texts as templates of models without images take them: joined.
std::string joined(const ordered_json& parts) {
  std::string text;
  for (const ordered_json& part : parts) text += part["text"].get<std::string>();
  return text;
}

ordered_json messages_of(RequestFields& fields, std::string_view text, const ServedModel& model,
                         std::vector<std::string>& images) {
  const std::string& chat_template = model.chat_template()->text();
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
    content = parts_of(content, model, images);
    if (model.vision() == nullptr) content = joined(content);
    // OpenAI's newer name, which few templates know.
    if (message["role"] == "developer" && chat_template.find("developer") == std::string::npos)
      message["role"] = "system";
    parse_arguments(message);
  }
  return all;
}

/// Whether `tool_choice` asks for a call.
bool wants_call(const json* choice) {
  return choice != nullptr && (*choice == "required" || choice->is_object());
}

}  // namespace

Conversation take_conversation(RequestFields& fields, std::string_view text,
                               const ServedModel& model, bool asks) {
  if (model.tokenizer() == nullptr || model.chat_template() == nullptr)
    throw ApiError(501, fmt::format("'{}' is served without a chat template: start the server with "
                                    "--tokenizer and --chat-template, or send text to "
                                    "/v1/completions",
                                    model.name()));
  Conversation result;
  const ordered_json messages = messages_of(fields, text, model, result.images);
  const json* tools = fields.take("tools");
  if (tools != nullptr && !tools->is_array()) RequestFields::fail("tools", "is no list");
  if (tools != nullptr && tools->size() > kMostTools)
    RequestFields::fail("tools", fmt::format("has {}: {} at most", tools->size(), kMostTools));
  const json* choice = fields.take("tool_choice");
  if (choice != nullptr && *choice != "auto" && *choice != "none" && !wants_call(choice))
    RequestFields::fail("tool_choice",
                        "is neither 'auto', 'none' nor 'required', and names no function");
  const bool has_tools =
      tools != nullptr && !tools->empty() && (choice == nullptr || *choice != "none");
  if (has_tools) result.calls = model.tool_form();
  if (wants_call(choice)) {
    if (!has_tools) RequestFields::fail("tool_choice", "asks for a call, and there are no 'tools'");
    if (result.calls == nullptr) result.calls = &plain_tool_form();
    result.wanted = constraint_of_call(*tools, *choice, text, *result.calls);
  }
  result.prompt = model.chat_template()->apply(
      messages, has_tools ? read_ordered_member(text, "tools") : ordered_json(), asks);
  return result;
}

void parse_arguments(ordered_json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return;
  if (!calls->is_array()) RequestFields::fail("messages", "has tool_calls that are no list");
  for (ordered_json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      RequestFields::fail("messages", "has a tool call without a 'function'");
    const auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_string()) continue;
    ordered_json parsed;
    try {
      parsed = read_ordered_json(arguments->get_ref<const std::string&>(), "the text");
    } catch (const Error& error) {
      RequestFields::fail(
          "messages",
          fmt::format("has a tool call whose arguments are no JSON object: {}", error.what()));
    }
    if (!parsed.is_object())
      RequestFields::fail("messages", "has a tool call whose arguments are no JSON object");
    *arguments = std::move(parsed);
  }
}

}  // namespace sinter::tools
