// SPDX-License-Identifier: Apache-2.0
// Identifies the inputs of a decoder: tokens, positions, masks of ones, caches.
#pragma once

#include <optional>
#include <vector>

#include "fusion/paging/decoder_states.h"

namespace sinter::fusion {

/// A cache: keys or values of all tokens so far, [1, .., tokens, width], returned with new
/// rows.
struct DecoderCache {
  ValueId input;         // of the graph
  int output = 0;        // index of the output that replaces it
  ValueId result;        // the cache with the new rows, which Attention reads
  NodeId writer;         // a Scatter of rows at their positions, or a Concat
  std::size_t axis = 0;  // the tokens' axis
  /// Of a sliding window, which returns some rows of `result`: their indices.
  std::optional<ValueId> kept;
};

struct DecoderInputs {
  ValueId ids;                     // integers [1, tokens] or [tokens]
  Dim tokens;                      // a symbol
  std::vector<ValueId> counts;     // one-element integers: number of previous tokens
  std::vector<ValueId> positions;  // integers: the position of each token
  std::vector<ValueId> masks;      // ones for all tokens so far
  std::vector<DecoderCache> caches;
  std::vector<DecoderState> states;
  std::vector<ValueId> cross_masks;  // ones for an encoder's positions
  /// Keys and values of an encoder's positions [.., positions, columns], which attention alone
  /// reads.
  std::vector<ValueId> crossed;
  /// Vectors in place of embeddings (paged_names::kGivenVectors, kGivenRows); both or none.
  struct Given {
    ValueId vectors, rows;
  };
  std::optional<Given> given;
  std::optional<ValueId> rotary;  // integers [axes, 1, tokens]: positions that turn q and k
  /// How caches grow: not at all (rows at their positions); by padding before that; or by
  /// concatenation to the rows of all previous tokens. Sliding windows are not meant.
  enum class Growth { kNone, kPadded, kConcatenated };
  Growth growth = Growth::kNone;
  /// Symbol of the caches' lengths; with growth, the number of previous tokens. Empty if
  /// there are no caches but sliding windows.
  std::string length;
};

/// `graph` with batch 1, if its integer inputs [batch, ..] have a symbolic batch.
Graph of_one_sequence(const Graph& graph);

/// Whether decoder_inputs is worth trying, before the passes: an output has the shape of an input
/// but for one dimension, as caches have, and an input is integers.
bool may_be_decoder(const Graph& graph);

/// The caches of `graph`, as decoder_inputs() finds them; none if it would refuse them.
std::vector<DecoderCache> decoder_caches(const Graph& graph);

/// Identifies the inputs of `graph`. Throws PagingRefused that names an input of no known kind.
DecoderInputs decoder_inputs(const Graph& graph);

}  // namespace sinter::fusion
