// SPDX-License-Identifier: Apache-2.0
// A conversation of a request as a prompt: `messages`, `tools`, `tool_choice`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/api/constraint_fields.h"
#include "tools/serve/api/request_fields.h"
#include "tools/serve/models/served_model.h"

namespace sinter::tools {

struct Conversation {
  std::string prompt;                     // by the model's chat template
  std::vector<std::string> images;        // of the messages, in their order: bytes of files
  const ToolForm* calls = nullptr;        // how calls of tools are spelled; null: there are none
  std::optional<FieldConstraint> wanted;  // of a call that is asked for
};

/// `text`: the body. `asks`: whether the prompt ends with what an answer begins behind. Throws
/// ApiError (400), and 501 for a model without a template.
Conversation take_conversation(RequestFields& fields, std::string_view text,
                               const ServedModel& model, bool asks = true);

/// Messages with `tool_calls` as OpenAI's API has them, of which `arguments` are JSON in a text, as
/// chat templates take them: with objects.
void parse_arguments(nlohmann::ordered_json& message);

}  // namespace sinter::tools
