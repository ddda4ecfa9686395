// SPDX-License-Identifier: Apache-2.0
// Calls that are JSON.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <sinter/error.h>

#include "tools/json/read_json.h"
#include "tools/serve/tool_calls/read_calls.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;
using State = ToolBlock::State;

constexpr std::string_view kSpace = " \t\r\n";
constexpr int kMostDepth = 64;  // of values in values: deeper ones are no calls

/// Null for what is no JSON, or goes beyond a limit.
ordered_json parsed(std::string_view text) {
  try {
    return read_ordered_json(text, "a call");
  } catch (const Error&) {
    return nullptr;
  }
}

std::string dumped(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

struct End {
  State state;  // kCalls: there is one
  std::size_t length;
};

/// The end of the JSON object or list that `text` begins with.
End end_of(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
      continue;
    }
    if (c == '"') in_text = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMostDepth) return {State::kNone, i};
    if (depth <= 0) return {depth == 0 && i > 0 ? State::kCalls : State::kNone, i + 1};
  }
  return {State::kOpen, 0};
}

std::optional<ToolCall> call_of(const ordered_json& said) {
  if (!said.is_object() || !said.contains("name") || !said["name"].is_string()) return std::nullopt;
  ordered_json arguments = ordered_json::object();
  for (const char* key : {"arguments", "parameters"})
    if (said.contains(key)) arguments = said[key];
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{said["name"].get<std::string>(), dumped(arguments)};
}

ToolBlock block_of(const ordered_json& said, std::size_t length) {
  ToolBlock block{State::kCalls, length, {}};
  const auto add = [&](const ordered_json& one) {
    auto call = call_of(one);
    if (!call) {
      block.state = State::kNone;
      return;
    }
    block.calls.push_back(std::move(*call));
  };
  if (said.is_array())
    for (const ordered_json& one : said) add(one);
  else
    add(said);
  if (block.calls.empty()) block.state = State::kNone;
  if (block.state == State::kNone) block.calls.clear();
  return block;
}

/// Of a text that begins with an object, or a list; what is in front of it has `before` bytes.
ToolBlock read_value(std::string_view text, std::size_t before, bool is_over) {
  const std::string_view value = text.substr(before);
  const End end = end_of(value);
  if (end.state == State::kOpen) return {is_over ? State::kNone : State::kOpen, 0, {}};
  if (end.state == State::kNone) return {State::kNone, before, {}};
  return block_of(parsed(value.substr(0, end.length)), before + end.length);
}

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace

std::size_t space_of(std::string_view text) {
  return std::min(text.find_first_not_of(kSpace), text.size());
}

ToolBlock read_tagged(std::string_view text, bool is_over) {
  constexpr std::string_view kEnd = "</tool_call>";
  const std::size_t end = text.find(kEnd);
  if (end == std::string_view::npos) return {is_over ? State::kNone : State::kOpen, 0, {}};
  const std::string_view inner = text.substr(0, end);
  const std::size_t length = end + kEnd.size();
  const std::size_t before = space_of(inner);
  if (before == inner.size() || inner[before] != '{' ||
      end_of(inner.substr(before)).state != State::kCalls)
    return {State::kNone, length, {}};
  return block_of(parsed(inner), length);
}

ToolBlock read_object(std::string_view text, bool is_over) {
  const std::size_t before = space_of(text);
  if (before == text.size()) return {is_over ? State::kNone : State::kOpen, 0, {}};
  if (text[before] != '{') return {State::kNone, before, {}};
  return read_value(text, before, is_over);
}

ToolBlock read_python_object(std::string_view text, bool is_over) {
  ToolBlock block = read_object(text, is_over);
  take_python_end(text, is_over, block);
  return block;
}

ToolBlock read_named(std::string_view text, bool is_over) {
  constexpr std::string_view kArguments = "[ARGS]", kId = "[CALL_ID]";
  const State open = is_over ? State::kNone : State::kOpen;
  std::size_t at = space_of(text);
  if (at == text.size()) return {open, 0, {}};
  if (text[at] == '[' || text[at] == '{') return read_value(text, at, is_over);
  const std::size_t begin = at;
  while (at < text.size() && is_of_name(text[at])) ++at;
  if (at == begin) return {State::kNone, at, {}};
  const std::string name(text.substr(begin, at - begin));
  for (const std::string_view mark : {kId, kArguments}) {
    const std::string_view rest = text.substr(at);
    if (rest.size() < mark.size() && mark.starts_with(rest)) return {open, 0, {}};
    if (!rest.starts_with(mark)) continue;
    at += mark.size();
    if (mark == kId)
      while (at < text.size() && is_of_name(text[at])) ++at;
  }
  at += space_of(text.substr(at));
  if (at == text.size()) return {open, 0, {}};
  if (text[at] != '{') return {State::kNone, at, {}};
  const End end = end_of(text.substr(at));
  if (end.state == State::kOpen) return {open, 0, {}};
  const auto arguments =
      end.state == State::kCalls ? parsed(text.substr(at, end.length)) : ordered_json();
  if (!arguments.is_object()) return {State::kNone, at, {}};
  return {State::kCalls, at + end.length, {{name, dumped(arguments)}}};
}

ordered_json tag_text(std::string value) {
  return {{"type", "const_string"}, {"value", std::move(value)}};
}

ordered_json tag_schema(ordered_json schema) {
  return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

ordered_json tag_sequence(std::vector<ordered_json> elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

ordered_json tag_arguments(const ordered_json& parameters) {
  ordered_json schema = parameters.is_null() ? ordered_json::object() : parameters;
  const auto says_what = [&](const char* key) { return schema.contains(key); };
  constexpr std::array kSaying = {"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"};
  if (schema.is_object() && std::ranges::none_of(kSaying, says_what)) schema["type"] = "object";
  return tag_schema(std::move(schema));
}

}  // namespace sinter::tools
