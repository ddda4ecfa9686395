// SPDX-License-Identifier: Apache-2.0
// What reads the images of a prompt: the bytes of files in, vectors in place of tokens out. What
// decodes images is a library of its own, which who serves is given (as that of speech is).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinter/engine.h>
#include <sinter/plan.h>
#include <sinter/session.h>

#include "tools/tokenizer/tokenizer.h"

namespace sinter::engine {
struct ExecutorLimits;
}

namespace sinter::tools {

struct ImagePrompt {
  std::vector<TokenId> tokens;
  std::shared_ptr<const PromptVectors> vectors;  // null: there are no images
};

class VisionModel {
 public:
  virtual ~VisionModel() = default;
  /// `text`: of the chat template, with the model's marker for each of `images`, the bytes of PNG,
  /// JPEG or WebP files. Throws Error(kUsage) for more or fewer markers, for files that cannot be
  /// read or are too large, and for more than `most` tokens; QueueFullError if as many wait as may.
  /// From any thread.
  virtual ImagePrompt read(const std::string& text, std::span<const std::string> images,
                           std::size_t most) = 0;
};

/// Of a tower's plan and the folder of its config.json and preprocessor_config.json. `tokenizer`
/// outlives it. `waiting`: requests that wait at most. Throws Error(kUsage) if they and the decoder
/// do not fit each other, and for architectures that are not known, by name.
using MakeVisionModel = std::unique_ptr<VisionModel> (*)(
    const Plan& tower, const std::string& folder, const Tokenizer& tokenizer,
    const engine::ExecutorLimits& decoder, const SessionOptions& session, std::int64_t waiting);

/// Whether a plan is a tower of images: it takes `pixels`.
inline bool is_tower(const Plan& plan) {
  return plan.inputs().size() == 1 && plan.inputs()[0].name == "pixels";
}

}  // namespace sinter::tools
