// SPDX-License-Identifier: Apache-2.0
// A decoder of one sequence, and the graph of many sequences that is made of it.
#pragma once

#include <string>
#include <vector>

#include "fusion/paging/decoder_inputs.h"
#include "fusion/paging/paged_states.h"
#include "fusion/paging/position_trials.h"

namespace sinter::fusion {

/// Throws PagingRefused that names `node`.
[[noreturn]] void refuse_paging(const Node& node, const std::string& why);

/// What the parts of page_caches share.
struct PagedGraph {
  PagedGraph(const Graph& graph, const PagingOptions& paging);
  PagedGraph(const PagedGraph&) = delete;
  PagedGraph& operator=(const PagedGraph&) = delete;

  const Graph& old;
  const PagingOptions options;
  const DecoderInputs inputs;
  const PositionTrials trials;
  PagedStates states;
  GraphBuilder b;
  std::vector<ValueId> mapped;  // new values of old ones
  // Inputs of the new graph, some of them invalid.
  ValueId places, slots, starts, tables, rows, lengths, cross_limits, cross_tables;
  std::size_t given = 0;  // inputs of vectors in place of tokens, and of rotary positions

  ValueId as(ValueId value, DType type);
  ValueId shaped(ValueId value, Shape shape);
  /// Token positions in place of a value of type `type`.
  ValueId token_positions(const TokenPositions& what, const TensorType& type);
  bool is_crossed(ValueId value) const;
};

}  // namespace sinter::fusion
