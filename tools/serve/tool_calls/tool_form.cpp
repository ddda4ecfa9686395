// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/tool_calls/tool_form.h"

#include <algorithm>

#include "tools/serve/tool_calls/read_calls.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

/// `before` {"name": "f", `key`: {..}} `after`.
ordered_json object_call(std::string before, const std::string& name, const char* key,
                         const ordered_json& parameters, const char* after) {
  before += "{\"name\": " + ordered_json(name).dump() + ", \"" + key + "\": ";
  return tag_sequence(
      {tag_text(std::move(before)), tag_arguments(parameters), tag_text(std::string("}") + after)});
}

const std::vector<ToolForm>& table() {
  // The first one whose marks a template has is taken: more special ones stand before others.
  static const std::vector<ToolForm> forms = {
      {.name = "mistral-named",  // Mistral's of 2025
       .marks = {"[ARGS]"},
       .openers = {"[TOOL_CALLS]"},
       .tokens = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
       .read = read_named,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return tag_sequence(
                 {tag_text("[TOOL_CALLS]" + name + "[ARGS]"), tag_arguments(parameters)});
           }},
      {.name = "mistral",
       .marks = {"[TOOL_CALLS]"},
       .openers = {"[TOOL_CALLS]"},
       .tokens = {"[TOOL_CALLS]"},
       .read = read_named,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return object_call("[TOOL_CALLS][", name, "arguments", parameters, "]");
           }},
      {.name = "hermes",  // Qwen's, too
       .marks = {"<tool_call>"},
       .openers = {"<tool_call>"},
       .tokens = {"<tool_call>", "</tool_call>"},
       .read = read_tagged,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return object_call("<tool_call>\n", name, "arguments", parameters, "\n</tool_call>");
           }},
      {.name = "gemma",
       .marks = {"tool_code"},
       .openers = {"```tool_code"},
       .read = read_tool_code,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return tag_sequence({tag_text("```tool_code\n"), tag_pythonic_call(name, parameters),
                                  tag_text("\n```")});
           }},
      {.name = "pythonic",  // Llama 4's, and small ones of Llama 3.2
       .marks = {"[func_name1("},
       .openers = {"<|python_start|>"},
       .start = '[',
       .tokens = {"<|python_start|>", "<|python_end|>"},
       .read = read_pythonic,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return tag_sequence(
                 {tag_text("["), tag_pythonic_call(name, parameters), tag_text("]")});
           }},
      {.name = "llama3",
       .marks = {"<|python_tag|>", "{\"name\": function name, \"parameters\""},
       .openers = {"<|python_tag|>", "<|python_start|>"},
       .start = '{',
       .tokens = {"<|python_tag|>", "<|python_start|>", "<|python_end|>"},
       .read = read_python_object,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return object_call("", name, "parameters", parameters, "");
           }},
      {.name = "json",
       .start = '{',
       .read = read_object,
       .format =
           [](const std::string& name, const ordered_json& parameters) {
             return object_call("", name, "arguments", parameters, "");
           }},
  };
  return forms;
}

}  // namespace

std::span<const ToolForm> tool_forms() { return table(); }

const ToolForm* find_tool_form(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &ToolForm::name);
  return found == table().end() ? nullptr : &*found;
}

const ToolForm* tool_form_of(std::string_view chat_template) {
  const auto asks_for = [&](const ToolForm& form) {
    return std::ranges::any_of(form.marks, [&](std::string_view mark) {
      return chat_template.find(mark) != std::string_view::npos;
    });
  };
  const auto found = std::ranges::find_if(table(), asks_for);
  return found == table().end() ? nullptr : &*found;
}

const ToolForm& plain_tool_form() { return *find_tool_form("json"); }

std::string tool_form_names() {
  std::string names;
  for (const ToolForm& form : table())
    names += (names.empty() ? "" : ", ") + std::string(form.name);
  return names;
}

}  // namespace sinter::tools
