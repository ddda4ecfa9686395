// SPDX-License-Identifier: Apache-2.0
// Answers that come later or bit by bit, as the connection takes them.
#pragma once

#include <memory>

#include "tools/serve/api/inference_answer.h"
#include "tools/serve/http/message.h"
#include "tools/serve/openai/answer_call.h"

namespace sinter::tools {

inline constexpr char kJsonType[] = "application/json";

/// A completion: a stream of server-sent events, or a whole answer when all of it is there.
http::Response call_response(std::shared_ptr<AnswerCall> call);

/// Tensors. What is long goes out bit by bit, binary data from where the session left it.
http::Response inference_response(const std::shared_ptr<InferenceAnswer>& answer);

}  // namespace sinter::tools
