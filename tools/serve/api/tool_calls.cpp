#include "tools/serve/api/tool_calls.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "tools/json/read_json.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/request_fields.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>", kSpace = " \t\r\n";

std::optional<ToolCallSplitter::Call> call_of(std::string_view block) {
  ordered_json said;
  try {
    said = read_ordered_json(block, "a call");
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!said.is_object() || !said.contains("name") || !said["name"].is_string()) return std::nullopt;
  const ordered_json arguments = said.value("arguments", ordered_json::object());
  if (!arguments.is_object()) return std::nullopt;
  return ToolCallSplitter::Call{said["name"].get<std::string>(), dump(arguments)};
}

/// How much of `text` is in front of white space, and of what may become kBegin, at its end.
std::size_t certain(std::string_view text) {
  for (std::size_t length = std::min(text.size(), kBegin.size() - 1); length > 0; --length)
    if (text.ends_with(kBegin.substr(0, length))) {
      text.remove_suffix(length);
      break;
    }
  return text.find_last_not_of(kSpace) + 1;  // npos: 0
}

}  // namespace

bool ToolCallSplitter::takes(std::string_view chat_template) {
  return chat_template.find(kBegin) != std::string_view::npos;
}

ToolCallSplitter::Piece ToolCallSplitter::add(std::string_view text) {
  held_ += text;
  Piece piece;
  std::size_t at = 0;  // all in front is in the piece
  while (true) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const std::size_t begin = rest.find(kBegin);
    if (begin == std::string_view::npos) {
      const std::size_t count = certain(rest);
      piece.text += rest.substr(0, count);
      at += count;
      break;
    }
    const std::size_t block = begin + kBegin.size();
    const std::size_t end = rest.find(kEnd, block);
    if (end == std::string_view::npos) break;
    if (auto call = call_of(rest.substr(block, end - block))) {
      piece.text += rest.substr(0, rest.substr(0, begin).find_last_not_of(kSpace) + 1);
      piece.calls.push_back(std::move(*call));
      has_calls_ = true;
    } else {
      piece.text += rest.substr(0, end + kEnd.size());
    }
    at += end + kEnd.size();
  }
  held_.erase(0, at);
  return piece;
}

ToolCallSplitter::Piece ToolCallSplitter::finish() {
  Piece piece;
  const bool is_space = held_.find_first_not_of(kSpace) == std::string::npos;
  if (!has_calls_ || !is_space) piece.text = std::move(held_);
  held_.clear();
  return piece;
}

ordered_json call_format(const std::string& name, ordered_json parameters) {
  if (parameters.is_null()) parameters = ordered_json::object();
  const auto says_what = [&](const char* key) { return parameters.contains(key); };
  constexpr std::array kSaying = {"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"};
  if (parameters.is_object() && std::ranges::none_of(kSaying, says_what))
    parameters["type"] = "object";
  const auto text = [](std::string value) {
    return ordered_json{{"type", "const_string"}, {"value", std::move(value)}};
  };
  return {{"type", "sequence"},
          {"elements",
           {text(std::string(kBegin) + "\n{\"name\": " + dump(name) + ", \"arguments\": "),
            {{"type", "json_schema"}, {"json_schema", std::move(parameters)}},
            text("}\n" + std::string(kEnd))}}};
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
