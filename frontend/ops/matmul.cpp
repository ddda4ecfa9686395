// SPDX-License-Identifier: Apache-2.0
// Matmuls.
#include "frontend/ops/products.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

void matmul(NodeContext& node) {
  node.output(multiply_matrices(node, node.input(0, "A"), node.input(1, "B")));
}

ValueId scaled(NodeContext& node, ValueId x, double factor) {
  return factor == 1 ? x : node.add("Mul", {x, node.constant(node.dtype(x), factor)});
}

void gemm(NodeContext& node) { node.output(import_gemm(node)); }

/// The determinant of rows `row`.. and `columns`, by Laplace expansion along the first row, for
/// small matrices: no pivoting is needed.
Term determinant(const Term& x, std::int64_t row, const Ints& columns) {
  const std::size_t rank = x.shape().size();
  std::optional<Term> sum;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    Term entry = slice_one(slice_one(x, rank - 2, row), rank - 1, columns[i]);
    if (columns.size() > 1) {
      Ints rest = columns;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      entry = entry * determinant(x, row + 1, rest);
    }
    sum = !sum ? entry : i % 2 == 0 ? *sum + entry : *sum - entry;
  }
  return *sum;
}

/// The input, or an error: its last two sizes must be one.
ValueId square_matrices(NodeContext& node) {
  const ValueId x = node.x();
  const Shape shape = node.shape(x);
  if (shape.size() < 2 || shape[shape.size() - 2] != shape.back())
    node.invalid("input must be square matrices, but is {}", node.type(x));
  return x;
}

void det(NodeContext& node) {
  // Expanded ones fuse with what is around them.
  constexpr std::int64_t kMostExpanded = 5;
  const ValueId x = square_matrices(node);
  Shape shape = node.shape(x);
  const Dim n = shape.back();
  if (!n.is_constant() || n.value() > kMostExpanded || n.value() < 1)
    return node.output(node.add("Determinant", {x}));
  Ints columns;
  for (std::int64_t c = 0; c < n.value(); ++c) columns.push_back(c);
  shape.resize(shape.size() - 2);
  node.output(determinant(Term(node, x), 0, columns).reshape(shape).value());
}

void inverse(NodeContext& node) { node.output(node.add("Inverse", {square_matrices(node)})); }

}  // namespace

/// A left vector is a row and a right vector a column; the added dimension is dropped from the
/// result.
ValueId multiply_matrices(NodeContext& node, ValueId a, ValueId b) {
  const std::int64_t rank_a = node.rank(a), rank_b = node.rank(b);
  if (rank_a == 0 || rank_b == 0)
    node.invalid("inputs must not be scalars, but are {} and {}", node.type(a), node.type(b));
  if (rank_a == 1) a = node.reshape(a, {Dim(1), node.shape(a)[0]});
  if (rank_b == 1) b = node.reshape(b, {node.shape(b)[0], Dim(1)});
  ValueId product = node.add("MatMul", {a, b});
  Shape shape = node.shape(product);
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  return node.reshape(product, shape);
}

ValueId import_gemm(NodeContext& node) {
  ValueId a = node.input(0, "A"), b = node.input(1, "B");
  if (node.rank(a) != 2 || node.rank(b) != 2)
    node.invalid("inputs must be matrices, but are {} and {}", node.type(a), node.type(b));
  if (node.attr_int("transA", 0) != 0) a = node.transpose(a, {1, 0});
  if (node.attr_int("transB", 0) != 0) b = node.transpose(b, {1, 0});
  ValueId result = scaled(node, node.add("MatMul", {a, b}), node.attr_float("alpha", 1));
  const double beta = node.attr_float("beta", 1);
  // ignores 'broadcast' of opset 6: C always broadcasts
  if (node.has_input(2)) {
    const ValueId c = node.input(2, "C");
    const Shape shape = node.shape(result);
    if (ir::broadcast(shape, node.shape(c)) != shape)
      node.invalid("C is {}, which does not broadcast to the product's {}", node.type(c), shape);
    if (beta != 0) result = node.add("Add", {result, scaled(node, c, beta)});
  }
  return result;
}

const OpRows kMatmulOps = {
    {"MatMul", 1, matmul},
    {"Gemm", 1, gemm, "alpha beta broadcast:-6 transA transB"},
    {"Det", 11, det, "", "", Types::kFloats},
    {"Inverse", 1, inverse, "", kMicrosoft, Types::kFloats},
};

}  // namespace sinter::frontend
