// SPDX-License-Identifier: Apache-2.0
// Texts as token ids, and ids as texts: POST /tokenize and /detokenize, as vLLM has them.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Of `prompt`, or of `messages` (with `tools`) by the chat template. Throws ApiError (400).
nlohmann::ordered_json tokenize(const nlohmann::json& body, std::string_view text,
                                const ServedModel& model);
/// Of `tokens`.
nlohmann::ordered_json detokenize(const nlohmann::json& body, const ServedModel& model);

}  // namespace sinter::tools
