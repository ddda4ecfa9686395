// SPDX-License-Identifier: Apache-2.0
// A plan that runs once in front of a decoder's: what comes out of it are inputs of the decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinter/engine.h>
#include <sinter/sinter.h>

#include "tools/generate/decoder.h"

namespace sinter::tools {

class Encoder {
 public:
  /// With SessionOptions::output_memory of kDevice what the decoder reads never leaves the GPU.
  Encoder(const Plan& plan, const SessionOptions& session);

  /// Inputs of `decoder` that an encoder gives: those named as its outputs;
  /// `encoder_hidden_states`, which is `last_hidden_state`; and `encoder_attention_mask`, which is
  /// its own `attention_mask`. Throws Error(kUsage) if there are none.
  static std::vector<std::string> feeds(const Plan& encoder, const Plan& decoder);

  void set_input(const std::string& name, const TensorView& view);
  /// Token ids, as `input_ids`, and ones as `attention_mask` where the plan takes it. Throws
  /// Error(kUsage) if it takes something else.
  void set_tokens(std::span<const std::int64_t> ids);

  /// Runs: what a paged plan of a decoder reads of it. The session's outputs are in host memory.
  std::shared_ptr<const EncoderOutput> run(const Plan& decoder);
  /// Runs, and gives `decoder`, which was made with feeds(), what it reads, until the next run.
  void run(Decoder& decoder);

  Session& session() { return session_; }

 private:
  Plan plan_;
  Session session_;
  std::vector<std::int64_t> mask_;
};

}  // namespace sinter::tools
