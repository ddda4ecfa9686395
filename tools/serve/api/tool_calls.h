// Calls of tools in the text of a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

/// Splits a text, as it comes, into what is said and calls of tools. These are written as Hermes
/// and Qwen do: `<tool_call>{"name": "f", "arguments": {..}}</tool_call>`. A block that is no such
/// call, or does not end, is text. White space around calls is dropped.
class ToolCallSplitter {
 public:
  struct Call {
    std::string name, arguments;  // arguments: JSON
  };
  struct Piece {
    std::string text;
    std::vector<Call> calls;
  };

  /// Whether a chat template asks for calls in this form.
  static bool takes(std::string_view chat_template);

  /// What is certain by now: a call is given when it has ended.
  Piece add(std::string_view text);
  /// The rest.
  Piece finish();

 private:
  std::string held_;
  bool has_calls_ = false;
};

/// A call of one function as a part of a structural tag (Constraint::Kind::kStructuralTag), its
/// arguments as the JSON schema `parameters` has them: an object; of null any object.
nlohmann::ordered_json call_format(const std::string& name, nlohmann::ordered_json parameters);

/// Messages with `tool_calls` as OpenAI's API has them, of which `arguments` are JSON in a text, as
/// chat templates take them: with objects.
void parse_arguments(nlohmann::ordered_json& message);

}  // namespace sinter::tools
