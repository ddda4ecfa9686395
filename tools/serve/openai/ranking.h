// SPDX-License-Identifier: Apache-2.0
// How well texts fit each other, by a cross-encoder: POST /v1/rerank as Jina and Cohere have it,
// POST /v1/score as vLLM has it.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// `documents` in the order of their relevance for `query`. Throws ApiError (400).
nlohmann::ordered_json rerank(const nlohmann::json& body, const ServedModel& model);
/// Of each pair of `text_1` and `text_2`: one and many, or as many of both.
nlohmann::ordered_json score(const nlohmann::json& body, const ServedModel& model);

}  // namespace sinter::tools
