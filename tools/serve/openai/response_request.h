// SPDX-License-Identifier: Apache-2.0
// What POST /v1/responses asks for: OpenAI's newer form of a conversation.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/serve/openai/completion_request.h"

namespace sinter::tools {

struct ResponseRequest {
  CompletionRequest completion;
  nlohmann::ordered_json echo;  // what an answer repeats of the request
};

/// `input` (text, or messages, calls of functions and their outputs), `instructions`, `tools` of
/// functions, `tool_choice`, `text.format`, `max_output_tokens`, `reasoning.effort`, and what draws
/// have. Nothing is stored: what names something that is, is refused. Throws ApiError (400) that
/// names what is unknown, not supported or out of range.
ResponseRequest parse_response(const nlohmann::json& body, std::string_view text,
                               const ServedModel& model);

}  // namespace sinter::tools
