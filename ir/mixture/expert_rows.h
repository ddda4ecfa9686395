// SPDX-License-Identifier: Apache-2.0
// The parts of a mixture of experts around its matmuls (README.md: route, group, combine), for all
// that writes mixtures: importers, decoders, recognition.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.h"

namespace sinter::ir {

/// The choices of all tokens, sorted by expert: rows of a GroupedMatMul.
struct ExpertRows {
  Dim tokens;
  std::int64_t chosen = 0, experts = 0;  // of a token; of the mixture
  ValueId order;                         // i32 [tokens * chosen]: the number of each row's choice
  ValueId offsets;     // i32 [experts + 2]: the first row of each expert; of those without expert
  ValueId tokens_of;   // i32 [tokens * chosen]: each row's token
  ValueId experts_of;  // i32 [tokens * chosen]: each row's expert
  ValueId rows_of;     // i32 [tokens, chosen]: the row of each choice
};

/// Sorts `choices` i32 [tokens, chosen]. The number `experts` is no expert: its rows are zero.
ExpertRows sort_by_expert(GraphBuilder& builder, ValueId choices, std::int64_t experts);
/// `x` [tokens, size] as rows.
ValueId take_tokens(GraphBuilder& builder, const ExpertRows& rows, ValueId x);
/// `x` [tokens * chosen, size], of each choice, as rows.
ValueId take_choices(GraphBuilder& builder, const ExpertRows& rows, ValueId x);
/// `values` [experts, size] as rows: biases.
ValueId take_experts(GraphBuilder& builder, const ExpertRows& rows, ValueId values);
/// The sum over a token's choices of shares f32 [tokens, chosen] times rows y: f32 [tokens, size].
ValueId combine_rows(GraphBuilder& builder, const ExpertRows& rows, ValueId y, ValueId shares);

/// What combine_rows() has written into a graph.
struct CombinedRows {
  std::int64_t chosen = 0;
  ValueId rows_of;               // i32 [tokens, chosen]
  ValueId shares;                // floats, as many, behind reshapes
  std::optional<DType> rounded;  // shares are rounded to it, 16 bits, and widened
  ValueId sum;                   // f32 [tokens, size] or [tokens, 1, size]
};
/// The sum over tokens' choices of `rows`, if nothing else in `graph` reads them.
std::optional<CombinedRows> find_combined_rows(const Graph& graph, ValueId rows);

}  // namespace sinter::ir
