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

namespace sinter::tools {

class Encoder {
 public:
  Encoder(const Plan& plan, const SessionOptions& session);

  /// Throws Error(kUsage) if no output of the encoder is an input of `decoder`.
  static void require_pair(const Plan& encoder, const Plan& decoder);

  void set_input(const std::string& name, const TensorView& view);
  /// Token ids, as `input_ids`, and ones as `attention_mask` where the plan takes it. Throws
  /// Error(kUsage) if it takes something else.
  void set_tokens(std::span<const std::int64_t> ids);

  /// Runs: what `decoder` reads of it. The session's outputs are in host memory.
  std::shared_ptr<const EncoderOutput> run(const Plan& decoder);

  Session& session() { return session_; }

 private:
  Plan plan_;
  Session session_;
  std::vector<std::int64_t> mask_;
};

}  // namespace sinter::tools
