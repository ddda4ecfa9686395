// SPDX-License-Identifier: Apache-2.0
// Batched matmuls of choices: each of S rows times a matrix that was gathered for it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fusion/context.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::fusion {

/// Indices that count from the end, from the front; i32.
ValueId from_front(GraphBuilder& builder, ValueId indices, std::int64_t count);

/// For a rewrite: rows between the matmuls of one mixture stay sorted by expert.
class GatheredRows {
 public:
  explicit GatheredRows(const Graph& graph) : graph_(graph) {}

  /// Notes the new values of a node's inputs.
  void visit(const Node& node, std::span<const ValueId> inputs);
  /// The Gather of matrices if `node` is MatMul([S, 1, k], [S, k, n]) or MatMul([S, n, k],
  /// [S, k, 1]) of matrices [experts, .., ..] at indices [S]; else null.
  const Node* find(const Node& node) const;
  /// The result of such a node, by a grouped matmul.
  ValueId product(GraphBuilder& builder, const Node& node);
  /// If `node` computes rows from rows that are sorted: the same of the sorted ones.
  void sort(GraphBuilder& builder, const Node& node);

 private:
  struct Sorted {
    ValueId indices, value;
  };
  const ir::ExpertRows& rows_of(GraphBuilder& builder, ValueId indices, std::int64_t experts);
  ValueId left_rows(GraphBuilder& builder, ValueId left, ValueId indices,
                    const ir::ExpertRows& rows);
  std::optional<ValueId> sorted(GraphBuilder& builder, ValueId value, ValueId indices);
  bool keeps_rows(const Node& node, const Dim& count) const;

  const Graph& graph_;
  std::map<ValueId, ValueId> new_;
  std::map<ValueId, ir::ExpertRows> rows_;  // by indices
  std::map<ValueId, Sorted> sorted_;
};

}  // namespace sinter::fusion
