// SPDX-License-Identifier: Apache-2.0
// What POST /v1/embeddings asks for, and its answer.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

struct EmbeddingRequest {
  std::vector<EncoderText> texts;
  std::set<std::size_t> cut;  // texts that were too long for the tokenizer, by number
  bool base64 = false;        // vectors as bytes of float32, little-endian
};

/// Fields as OpenAI's API has them: `input` is a text, a list of texts, token ids or a list of
/// such. `prompt_name`: a prompt of the model's, which stands in front of each text; token ids are
/// taken as they are. Throws ApiError (400) that names what is unknown or not supported.
EmbeddingRequest parse_embedding(const nlohmann::json& body, const ServedModel& model);
nlohmann::ordered_json embedding_answer(const EmbeddingRequest& request, const std::string& model,
                                        const std::vector<std::vector<float>>& vectors);

}  // namespace sinter::tools
