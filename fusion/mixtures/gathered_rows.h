// SPDX-License-Identifier: Apache-2.0
// Batched matmuls of choices: each row times a matrix that was gathered for it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "fusion/context.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::fusion {

/// For a rewrite that calls visit() for each node: rows between the matmuls of one mixture stay
/// sorted by expert. Choices are the indices [T, c] of Gathers of matrices, or [S] with S = T * c,
/// and rows are values [T, c, ..] or [S, ..]; sorted ones are [S, ..].
class GatheredRows {
 public:
  explicit GatheredRows(const Graph& graph) : graph_(graph) {}

  /// Notes the new values of a node's inputs.
  void visit(const Node& node, std::span<const ValueId> inputs);
  /// The Gather of matrices [experts, .., ..] if `node` is a matmul of rows, each with a matrix of
  /// its own; else null.
  const Node* find(const Node& node) const;
  /// The result of such a node, by a grouped matmul.
  ValueId product(GraphBuilder& builder, const Node& node);
  /// The result of a matmul that sums a token's rows times shares; nothing if it is none.
  std::optional<ValueId> sum(GraphBuilder& builder, const Node& node);
  /// If `node` computes rows from rows that are sorted: the same of the sorted ones.
  void sort(GraphBuilder& builder, const Node& node);

 private:
  struct Product {
    const Node* gather = nullptr;
    std::size_t operand = 1;  // of the matmul: the matrices
    bool transposed = false;  // matrices are [n, k]
    bool by_token = false;    // the c rows of a token are one, else they are c different ones
  };
  struct Sorted {
    ValueId choices, value;
  };
  std::optional<Product> find_product(const Node& node, std::size_t operand) const;
  std::optional<Product> find_product(const Node& node) const;
  ValueId choices_of(ValueId indices) const;
  std::size_t lead(const Shape& shape, ValueId choices) const;
  std::optional<Shape> row_shape(const Shape& shape, ValueId choices) const;
  const ir::ExpertRows& rows_of(GraphBuilder& builder, ValueId choices, std::int64_t experts);
  ValueId left_rows(GraphBuilder& builder, const Product& found, ValueId left, const Dim& k);
  std::optional<ValueId> sorted(GraphBuilder& builder, ValueId value, ValueId choices);
  std::optional<ValueId> operand_rows(GraphBuilder& builder, ValueId value, ValueId choices,
                                      const Shape& result);
  std::optional<Attrs> row_attrs(const Node& node, ValueId choices) const;

  const Graph& graph_;
  std::map<ValueId, ValueId> new_;
  std::map<ValueId, ir::ExpertRows> rows_;  // by choices
  std::map<ValueId, Sorted> sorted_;
};

}  // namespace sinter::fusion
