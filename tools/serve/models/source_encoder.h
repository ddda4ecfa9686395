// SPDX-License-Identifier: Apache-2.0
// What reads the prompts of an encoder-decoder, such as one that translates: its encoder's plan.
#pragma once

#include <cstdint>
#include <mutex>

#include <sinter/engine.h>
#include <sinter/plan.h>
#include <sinter/session.h>

#include "tools/generate/encoder.h"

namespace sinter::tools {

class SourceEncoder {
 public:
  /// Whether an encoder's plan takes token ids.
  static bool takes(const Plan& encoder);

  /// `positions`: of the encoder, that the decoder's plan keeps for a text. Texts begin with
  /// `start`. The plans are a pair (Encoder::require_pair).
  SourceEncoder(const Plan& encoder, const Plan& decoder, std::int64_t positions, TokenId start,
                const SessionOptions& session);

  /// Runs the encoder over the request's prompt, in whose place comes the first token. From any
  /// thread: one runs at a time. Throws Error(kUsage) for prompts that are too long.
  void read(GenerationRequest& request);
  std::int64_t most_tokens() const { return most_tokens_; }

 private:
  std::mutex mutex_;
  Encoder encoder_;
  Plan decoder_;
  std::int64_t most_tokens_;
  TokenId start_;
};

}  // namespace sinter::tools
