// SPDX-License-Identifier: Apache-2.0
// Draws the tokens of a decoder of many sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Adds SampleTokens after the logits of a plan of many sequences.
class TokenSampler {
 public:
  static constexpr std::size_t kInputs = 6;
  /// Declares the inputs of sampling. `vocabulary`: the last dimension of the logits.
  void declare(GraphBuilder& builder, const Dim& vocabulary);
  /// Adds the outputs that are drawn from `logits`, [samples, vocabulary].
  void draw(GraphBuilder& builder, ValueId logits) const;

 private:
  /// The limit of OpenAI's API.
  static constexpr std::int64_t kLikeliest = 20;
  static constexpr std::int64_t kMostSetRows = 1 << 14, kMostBiases = 1 << 24;

  std::vector<ValueId> inputs_;  // without the logits
};

}  // namespace sinter::fusion
