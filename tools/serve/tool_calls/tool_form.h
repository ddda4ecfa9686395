// SPDX-License-Identifier: Apache-2.0
// How models spell calls of tools: one table of forms.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/tool_calls/tool_block.h"

namespace sinter::tools {

/// A row of the table.
struct ToolForm {
  std::string_view name;
  /// A chat template that has one of these texts asks for calls in this form.
  std::vector<std::string_view> marks;
  /// A block of calls begins with one of these, anywhere in a text.
  std::vector<std::string_view> openers;
  /// Or with this at the start of a text, and behind a call; 0: only with those above.
  char start = 0;
  /// Names of special tokens that are a part of calls, and so of the text.
  std::vector<std::string_view> tokens;
  /// Reads a block from behind its opener. `is_over`: no more comes.
  ToolBlock (*read)(std::string_view text, bool is_over) = nullptr;
  /// A call of one function as a part of a structural tag (Constraint::Kind::kStructuralTag), its
  /// arguments as the JSON schema `parameters` has them: an object; of null any object.
  nlohmann::ordered_json (*format)(const std::string& name,
                                   const nlohmann::ordered_json& parameters) = nullptr;
};

std::span<const ToolForm> tool_forms();
/// Null if there is none of that name.
const ToolForm* find_tool_form(std::string_view name);
/// The form that a chat template asks for; null if it asks for none that is known.
const ToolForm* tool_form_of(std::string_view chat_template);
/// A JSON object with "name" and "arguments", for models whose template has no form.
const ToolForm& plain_tool_form();
/// "hermes, llama3, ..".
std::string tool_form_names();

}  // namespace sinter::tools
