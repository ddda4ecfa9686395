// SPDX-License-Identifier: Apache-2.0
// Speech to text: POST /v1/audio/transcriptions and /v1/audio/translations, as OpenAI's API has
// them.
#pragma once

#include <span>
#include <string>

#include "tools/serve/api/multipart.h"
#include "tools/serve/model_registry.h"

namespace sinter::tools {

/// Fields are those of a form: `file`, `model`, `language`, `response_format`, `temperature`,
/// `timestamp_granularities[]` (segment). `translate`: to English. Throws ApiError (400) that names
/// what is unknown or not supported.
SpeechAnswer transcribe(std::span<const FormPart> form, const ModelRegistry& models,
                        bool translate);

}  // namespace sinter::tools
