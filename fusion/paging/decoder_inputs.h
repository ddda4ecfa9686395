// What the inputs of a decoder are: tokens, where they stand, masks of ones, caches.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A cache: keys or values of the tokens so far [1, .., tokens, width], which a run gives back with
/// new rows.
struct DecoderCache {
  ValueId input;         // of the graph
  int output = 0;        // number of the output that takes its place
  ValueId result;        // what Attention reads: the cache with the new rows
  NodeId writer;         // a Scatter of rows at their positions, or a Concat of both
  std::size_t axis = 0;  // of the tokens
};

struct DecoderInputs {
  ValueId ids;                     // integers [1, tokens] or [tokens]
  Dim tokens;                      // a symbol
  std::vector<ValueId> counts;     // integers of one element: how many tokens came before
  std::vector<ValueId> positions;  // integers of as many as there are tokens: where each stands
  std::vector<ValueId> masks;      // of all tokens so far, ones
  std::vector<DecoderCache> caches;
  /// How caches get new rows: at their positions among those that there are; the same behind as
  /// many rows of padding as that takes; concatenated behind those of all tokens before.
  enum class Growth { kNone, kPadded, kConcatenated };
  Growth growth = Growth::kNone;
  std::string length;  // symbol of the caches' lengths: with growth, that of the tokens before
};

/// `graph` with a batch of one, where its inputs of integers [batch, ..] leave that open.
Graph of_one_sequence(const Graph& graph);

/// Those of `graph`. Throws Error(kUnsupported) naming what is none of a decoder that is known.
DecoderInputs decoder_inputs(const Graph& graph);

}  // namespace sinter::fusion
