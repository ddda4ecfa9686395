// SPDX-License-Identifier: Apache-2.0
// Scalar expressions over columns of values: the reference evaluator's inner loop.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/scalar_expr.h"

namespace sinter::ir::reference {

/// Values of one class: floats as double, integers and bool as int64 (see scalar_math.h).
struct Column {
  bool floats = true;
  std::vector<double> f;
  Ints i;

  Column() = default;
  Column(bool are_floats, std::size_t size) : floats(are_floats) {
    are_floats ? f.resize(size) : i.resize(size);
  }
};

/// All elements of `tensor`, if its class is `floats`.
Column widen(const Tensor& tensor, bool floats);

/// Evaluates an expression block by block: fill operand(0..), run(n), read the result.
class ColumnEvaluator {
 public:
  static constexpr std::size_t kBlock = 1024;

  /// `operands` and `result` are the declared types.
  ColumnEvaluator(const ScalarExpr& expr, std::span<const DType> operands, DType result,
                  const Attrs& attrs);
  /// A buffer of kBlock values to fill.
  Column& operand(int index) { return operands_[static_cast<std::size_t>(index)]; }
  /// The first n <= kBlock results; valid until the next run.
  const Column& run(std::size_t n);

 private:
  const Column& column(int node) const;

  const ScalarExpr& expr_;
  std::vector<DType> types_;
  std::vector<Column> operands_;
  std::vector<Column> values_;  // one per node, unused for operands
};

}  // namespace sinter::ir::reference
