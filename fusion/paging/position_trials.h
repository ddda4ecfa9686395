// What the index arithmetic of a decoder gives, found by running it: exporters spell positions and
// masks in too many ways to match them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fusion/paging/decoder_inputs.h"

namespace sinter::fusion {

/// An integer that is, at each index along `axis`, where the token of that number stands, plus
/// `more`; all other dimensions have one element.
struct TokenPositions {
  std::size_t axis = 0;
  std::int64_t more = 0;
};

/// Runs what depends on the numbers of tokens alone, for several numbers of tokens and of tokens
/// before them: all that is said below holds in each.
class PositionTrials {
 public:
  PositionTrials(const Graph& graph, const DecoderInputs& inputs);

  // Of values that depend on the tokens' ids or on floats of the model nothing is said.
  std::optional<TokenPositions> positions(ValueId value) const;
  /// True if every element is the number of the last token, or -1.
  bool is_last_token(ValueId value) const;
  /// Of a mask [.., tokens, keys], a bool that is true for what is seen (`negated`: hidden) or a
  /// float that is added: rows see the keys up to their own position; the number is of how many of
  /// these the last, 0: all.
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
  std::vector<ValueId> inputs_;  // that they depend on
  std::vector<NodeId> nodes_;    // that make them
  std::vector<Trial> trials_;
};

}  // namespace sinter::fusion
