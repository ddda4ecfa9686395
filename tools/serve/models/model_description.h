// SPDX-License-Identifier: Apache-2.0
// A model as /v1/models lists it.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// OpenAI's fields; whether it answers; and what it can be asked for: `tasks`, `prompt`,
/// `max_model_len`, `tool_calls`, `sampling` (README.md).
nlohmann::ordered_json description_of(const ServedModel& model);

}  // namespace sinter::tools
