// SPDX-License-Identifier: Apache-2.0
// Readers of calls in texts, and their structural tags.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/tool_calls/tool_block.h"

namespace sinter::tools {

/// White space at the beginning of `text`, in bytes.
std::size_t space_of(std::string_view text);

/// `<tool_call>`: an object up to `</tool_call>`.
ToolBlock read_tagged(std::string_view text, bool is_over);
/// One object.
ToolBlock read_object(std::string_view text, bool is_over);
/// One object, and `<|python_end|>` if it is there.
ToolBlock read_python_object(std::string_view text, bool is_over);
/// `[TOOL_CALLS]`: a list of objects, or a name, `[ARGS]` if wanted, and an object of arguments.
ToolBlock read_named(std::string_view text, bool is_over);
/// A list of calls as Python has them, as [f(a=1, b="x"), g()].
ToolBlock read_pythonic(std::string_view text, bool is_over);
/// Such a list, or a call a line, up to "```".
ToolBlock read_tool_code(std::string_view text, bool is_over);

/// Takes `<|python_end|>` into a block of calls of `text`, where it follows.
void take_python_end(std::string_view text, bool is_over, ToolBlock& block);

/// A structural tag's text, JSON of a schema, and parts one after the other.
nlohmann::ordered_json tag_text(std::string value);
nlohmann::ordered_json tag_schema(nlohmann::ordered_json schema);
nlohmann::ordered_json tag_sequence(std::vector<nlohmann::ordered_json> elements);

/// Arguments as JSON: of null any object.
nlohmann::ordered_json tag_arguments(const nlohmann::ordered_json& parameters);
/// `f(a=1, b="x")`: properties in their order, those that are required first. Values are JSON, but
/// True and False.
nlohmann::ordered_json tag_pythonic_call(const std::string& name,
                                         const nlohmann::ordered_json& parameters);

}  // namespace sinter::tools
