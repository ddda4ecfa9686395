// SPDX-License-Identifier: Apache-2.0
// Routes of OpenAI's API and its kin: one table, whatever carries the bytes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tools/serve/model_registry.h"
#include "tools/serve/openai/answer_call.h"

namespace sinter::tools {

/// An answer that is there.
struct WholeAnswer {
  std::string body, content_type = "application/json";
};
/// One that waits for tensors, which whoever carries it calls where it may wait.
using LaterAnswer = std::function<WholeAnswer()>;
using ApiAnswer = std::variant<WholeAnswer, LaterAnswer, std::shared_ptr<AnswerCall>>;

/// A POST with a JSON object as its body.
struct ApiRoute {
  const char* path;
  /// Throws ApiError and Error.
  ApiAnswer (*answer)(const ModelRegistry& models, std::string_view body);
};
std::span<const ApiRoute> api_routes();

/// Paths of POSTs with a form as their body: `transcribe` answers them.
struct SpeechRoute {
  const char* path;
  bool translate;
};
std::span<const SpeechRoute> speech_routes();

}  // namespace sinter::tools
