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
/// A bias of scores that the distance of a token's key decides, for each head: in steps, which are
/// few.
struct DistanceBias {
  Ints shape;  // of a step: [.., heads, 1, 1]
  struct Step {
    std::int64_t from = 0;       // the least distance, ascending from 0
    std::vector<double> values;  // of heads
  };
  std::vector<Step> steps;
};

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
  /// The bias of a mask of floats whose rows see the keys up to their own position.
  std::optional<DistanceBias> distance_bias(ValueId mask) const;
  /// Whether a mask [.., tokens, an encoder's positions] shows all.
  bool shows_all(ValueId mask) const;
  /// The same as window() for a mask of `cache`, a sliding window, which is followed from run to
  /// run: rows see the rows of it that are of the last keys.
  std::optional<std::int64_t> sliding_window(ValueId mask, const DecoderCache& cache) const;

 private:
  struct Trial {
    std::int64_t tokens = 0, before = 0, length = 0;
    std::vector<Tensor> values;  // by index_
  };
  void choose(const Graph& graph, const DecoderInputs& inputs);
  void run(const DecoderInputs& inputs, Trial& trial) const;

  const Graph& graph_;
  std::map<std::string, std::int64_t> sliding_;  // lengths of sliding windows, by their symbols
  std::map<ValueId, std::size_t> index_;
  std::vector<ValueId> inputs_;  // that the nodes depend on
  std::vector<NodeId> nodes_;    // that compute the values
  std::vector<Trial> trials_;
  std::vector<Trial> turns_;  // runs behind each other, if there are sliding windows
};

}  // namespace sinter::fusion
