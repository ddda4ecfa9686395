// SPDX-License-Identifier: Apache-2.0
// Vectors of texts by a plan that is an encoder: token ids in, a vector for each text out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinter/engine.h>

#include "tools/serve/models/tensor_model.h"
#include "tools/serve/models/text_pooling.h"

namespace sinter::tools {

/// Token ids of a text, or of two that belong together.
struct EncoderText {
  std::vector<TokenId> ids;
  std::size_t second = 0;   // the first token of the second text; 0: there is none
  std::size_t skipped = 0;  // first tokens that are not pooled: those of a prompt
};

class Embedder {
 public:
  /// Whether the plan takes `input_ids`, and nothing but `attention_mask`, `token_type_ids` and
  /// `position_ids` beside them, and gives floats [texts, size] (`sentence_embedding`, say) or
  /// [texts, tokens, size].
  static bool takes(const Plan& plan);
  /// `tensors`, of a plan that it takes, outlives it. `dense`: what follows the pooling, of a plan
  /// that gives vectors of tokens.
  Embedder(TensorModel& tensors, Pooling pooling, std::vector<DenseLayer> dense = {});

  /// A vector for each text, which is ids of one token or more; of length 1 if it `normalizes`.
  /// Texts of like length run at once. Throws Error(kUsage) for more tokens than most_tokens(), and
  /// as TensorModel::infer does.
  std::vector<std::vector<float>> embed(const std::vector<EncoderText>& texts,
                                        bool normalizes = true);
  /// Whether it is a cross-encoder: gives logits of texts' labels, `logits` or `scores` [texts,
  /// labels], or any [texts, 1].
  bool ranks() const { return ranks_; }
  /// The logits of each text, of a cross-encoder. Throws as embed() does.
  std::vector<std::vector<float>> rank(const std::vector<EncoderText>& texts);
  std::int64_t most_tokens() const { return most_tokens_; }

 private:
  /// What the plan gives for each text, where it gives something for each token pooled.
  std::vector<std::vector<float>> run(const std::vector<EncoderText>& texts);
  std::vector<std::vector<float>> run_alike(const std::vector<const EncoderText*>& texts);

  TensorModel& tensors_;
  Pooling pooling_;
  std::vector<DenseLayer> dense_;
  std::size_t output_ = 0;
  bool ranks_ = false;
  std::int64_t most_tokens_ = 0;
};

}  // namespace sinter::tools
