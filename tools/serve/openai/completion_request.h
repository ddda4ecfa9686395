// SPDX-License-Identifier: Apache-2.0
// What POST /v1/completions asks for.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Which of OpenAI's two forms an answer has: a text, or a message.
enum class ApiForm : std::uint8_t { kText, kChat };

struct CompletionRequest {
  ApiForm form = ApiForm::kText;
  std::vector<GenerationRequest> prompts;  // with the same sampling, each of `samples` texts
  bool stream = false, include_usage = false;
  bool token_ids = false;           // choices have the ids of their tokens, too
  const ToolForm* calls = nullptr;  // of tools, which are objects in answers; null: they stay text
  bool parallel_calls = true;       // more than one of an answer
  std::size_t prompt_tokens = 0;    // of all prompts, as they were given
};

/// Of a body: which model; empty if it does not say.
std::string model_of(const nlohmann::json& body);
/// Fields as OpenAI's API has them, and all of sampling_rows(), `min_tokens`, `ignore_eos`,
/// `priority`, `timeout_seconds`, `return_token_ids`, and constraints (constraint_fields.h). `text`
/// is what the body was parsed from. Throws ApiError (400) that names what is unknown, not
/// supported or out of range.
CompletionRequest parse_completion(const nlohmann::json& body, std::string_view text,
                                   const ServedModel& model);
/// The same with `messages` and `tools` in place of `prompt`, by the model's chat template; without
/// a limit an answer is as long as fits.
CompletionRequest parse_chat(const nlohmann::json& body, std::string_view text,
                             const ServedModel& model);

}  // namespace sinter::tools
