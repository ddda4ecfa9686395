// Matrix products.
#include <fmt/format.h>

#include "frontend/ops/op_table.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

/// numpy.matmul: a vector on the left is a row, one on the right a column, and the dimension that
/// this adds is taken away again.
void matmul(NodeContext& node) {
  ValueId a = node.input(0, "A"), b = node.input(1, "B");
  const std::int64_t rank_a = node.rank(a), rank_b = node.rank(b);
  if (rank_a == 0 || rank_b == 0)
    node.invalid(fmt::format("inputs must not be scalars, but are {} and {}",
                             ir::to_string(node.type(a)), ir::to_string(node.type(b))));
  if (rank_a == 1) a = node.reshape(a, {Dim(1), node.shape(a)[0]});
  if (rank_b == 1) b = node.reshape(b, {node.shape(b)[0], Dim(1)});
  ValueId product = node.add("MatMul", {a, b});
  Shape shape = node.shape(product);
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  node.output(node.reshape(product, shape));
}

ValueId scaled(NodeContext& node, ValueId x, double factor) {
  return factor == 1 ? x : node.add("Mul", {x, node.constant(node.dtype(x), factor)});
}

/// alpha * A' * B' + beta * C, where A' and B' may be transposed.
void gemm(NodeContext& node) {
  ValueId a = node.input(0, "A"), b = node.input(1, "B");
  if (node.rank(a) != 2 || node.rank(b) != 2)
    node.invalid(fmt::format("inputs must be matrices, but are {} and {}",
                             ir::to_string(node.type(a)), ir::to_string(node.type(b))));
  if (node.attr_int("transA", 0) != 0) a = node.transpose(a, {1, 0});
  if (node.attr_int("transB", 0) != 0) b = node.transpose(b, {1, 0});
  ValueId result = scaled(node, node.add("MatMul", {a, b}), node.attr_float("alpha", 1));
  const double beta = node.attr_float("beta", 1);
  if (node.has_input(2)) {
    const ValueId c = node.input(2, "C");
    const Shape shape = node.shape(result);
    if (ir::broadcast(shape, node.shape(c)) != shape)
      node.invalid(fmt::format("C is {}, which does not broadcast to the product's {}",
                               ir::to_string(node.type(c)), ir::to_string(shape)));
    if (beta != 0) result = node.add("Add", {result, scaled(node, c, beta)});
  }
  node.output(result);
}

constexpr OpRow kRows[] = {
    {"MatMul", 1, matmul},
    {"Gemm", 7, gemm},
};

}  // namespace

std::span<const OpRow> matmul_ops() { return kRows; }

}  // namespace sinter::frontend
