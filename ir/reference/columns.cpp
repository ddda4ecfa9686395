// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/columns.h"

#include <algorithm>

#include "ir/scalar_math.h"

namespace sinter::ir::reference {
namespace {

void run_cast(DType from, DType to, const Column& x, Column& out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (is_float(from))
      is_float(to) ? void(out.f[i] = x.f[i]) : void(out.i[i] = double_to_int(to, x.f[i]));
    else
      is_float(to) ? void(out.f[i] = int_to_double(from, x.i[i]))
                   : void(out.i[i] = wrap_to(to, x.i[i]));
  }
}

void run_select(const Column& condition, const Column& a, const Column& b, Column& out,
                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const bool first = condition.i[i] != 0;
    if (out.floats)
      out.f[i] = first ? a.f[i] : b.f[i];
    else
      out.i[i] = first ? a.i[i] : b.i[i];
  }
}

void run_bit_cast(DType from, DType to, const Column& a, Column& out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Scalar value = cast_bits(to, from, a.floats ? a.f[i] : 0, a.floats ? 0 : a.i[i]);
    if (out.floats)
      out.f[i] = value.f;
    else
      out.i[i] = value.i;
  }
}

template <ScalarOp Op>
void run_op(DType type, const Column& a, const Column& b, Column& out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (yields_bool(Op))
      out.i[i] = a.floats ? float_test<Op>(a.f[i], b.f[i]) : int_test<Op>(type, a.i[i], b.i[i]);
    else if (a.floats)
      out.f[i] = float_value<Op>(a.f[i], b.f[i]);
    else
      out.i[i] = int_value<Op>(type, a.i[i], b.i[i]);
  }
}

}  // namespace

Column widen(const Tensor& tensor, bool floats) {
  Column column(floats, 0);
  if (floats)
    column.f = tensor.to_doubles();
  else
    column.i = tensor.to_ints();
  return column;
}

ColumnEvaluator::ColumnEvaluator(const ScalarExpr& expr, std::span<const DType> operands,
                                 DType result, const Attrs& attrs)
    : expr_(expr) {
  std::vector<DType> compute;
  for (const DType type : operands) {
    compute.push_back(compute_type(type));
    operands_.emplace_back(is_float(type), kBlock);
  }
  types_ = infer_scalar_types(expr, compute, compute_type(result));
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const ScalarNode& node = expr.nodes[i];
    const bool computed = node.kind != ScalarNode::Kind::kOperand;
    Column& column = values_.emplace_back(is_float(types_[i]), computed ? kBlock : 0);
    if (!computed || node.kind == ScalarNode::Kind::kOp) continue;
    const Scalar value = scalar_of(node, types_[i], attrs);
    std::ranges::fill(column.f, value.f);
    std::ranges::fill(column.i, value.i);
  }
}

const Column& ColumnEvaluator::column(int node) const {
  const ScalarNode& found = expr_.nodes[static_cast<std::size_t>(node)];
  return found.kind == ScalarNode::Kind::kOperand
             ? operands_[static_cast<std::size_t>(found.operand)]
             : values_[static_cast<std::size_t>(node)];
}

const Column& ColumnEvaluator::run(std::size_t n) {
  for (std::size_t i = 0; i < expr_.nodes.size(); ++i) {
    const ScalarNode& node = expr_.nodes[i];
    if (node.kind != ScalarNode::Kind::kOp) continue;
    Column& out = values_[i];
    const Column& a = column(node.args[0]);
    const DType type = types_[static_cast<std::size_t>(node.args[0])];
    if (node.op == ScalarOp::kCast) {
      run_cast(type, types_[i], a, out, n);
    } else if (node.op == ScalarOp::kBitCast) {
      run_bit_cast(type, types_[i], a, out, n);
    } else if (node.op == ScalarOp::kSelect) {
      run_select(a, column(node.args[1]), column(node.args[2]), out, n);
    } else {
      const Column& b = arity_of(node.op) > 1 ? column(node.args[1]) : a;
      dispatch_scalar_op(node.op, [&]<ScalarOp Op>() { run_op<Op>(type, a, b, out, n); });
    }
  }
  return column(static_cast<int>(expr_.nodes.size()) - 1);
}

}  // namespace sinter::ir::reference
