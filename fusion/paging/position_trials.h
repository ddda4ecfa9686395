// SPDX-License-Identifier: Apache-2.0
// Evaluates a decoder's index arithmetic: exporters spell positions and masks in too many ways to
// match patterns.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fusion/paging/decoder_inputs.h"

namespace sinter::fusion {

/// An integer tensor that is, along `axis`, each token's position plus `more`; all other dimensions
/// have one element.
struct TokenPositions {
  std::size_t axis = 0;
  std::int64_t more = 0;
};

/// Runs the nodes that depend only on token counts, for several counts of tokens and of previous
/// tokens. Every answer holds in all of these trials.
class PositionTrials {
 public:
  PositionTrials(const Graph& graph, const DecoderInputs& inputs);

  // Values that depend on token ids or on the model's floats get no answer.
  std::optional<TokenPositions> positions(ValueId value) const;
  /// True if every element is the last token's index, or -1.
  bool is_last_token(ValueId value) const;
  /// For a mask [.., tokens, keys]: a bool that is true for visible keys (`negated`: for hidden
  /// ones), or an additive float. If rows see the keys up to their own position: the size of the
  /// window of last keys, 0 for all.
  std::optional<std::int64_t> window(ValueId mask, bool negated) const;

 private:
  struct Trial {
    std::int64_t tokens = 0, before = 0, length = 0;
    std::vector<Tensor> values;  // by index_
  };
  void choose(const Graph& graph, const DecoderInputs& inputs);
  void run(const DecoderInputs& inputs, Trial& trial) const;

  const Graph& graph_;
  std::map<ValueId, std::size_t> index_;
  std::vector<ValueId> inputs_;  // that the nodes depend on
  std::vector<NodeId> nodes_;    // that compute the values
  std::vector<Trial> trials_;
};

}  // namespace sinter::fusion
