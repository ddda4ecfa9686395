// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "ir/reference/columns.h"
#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"
#include "ir/scalar_math.h"

namespace sinter::ir::reference {

Scalar identity_of(Combine combine, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (combine) {
    case Combine::kSum: return {0, 0};
    case Combine::kProd: return {1, 1};
    case Combine::kMax: return {-kInfinity, min_value_of(type)};
    case Combine::kMin: return {kInfinity, max_value_of(type)};
  }
  return {};
}

ScalarOp op_of(Combine combine) {
  switch (combine) {
    case Combine::kSum: return ScalarOp::kAdd;
    case Combine::kProd: return ScalarOp::kMul;
    case Combine::kMax: return ScalarOp::kMax;
    case Combine::kMin: return ScalarOp::kMin;
  }
  return ScalarOp::kAdd;
}

namespace {

/// Combines the first n elements of `column` into `total`.
void accumulate(Combine combine, DType type, const Column& column, std::size_t n, Scalar& total) {
  dispatch_scalar_op(op_of(combine), [&]<ScalarOp Op>() {
    if constexpr (!yields_bool(Op)) {
      for (std::size_t k = 0; k < n; ++k) {
        if (column.floats)
          total.f = float_value<Op>(total.f, column.f[k]);
        else
          total.i = int_value<Op>(type, total.i, column.i[k]);
      }
    }
  });
}

}  // namespace

Tensor evaluate_reduce(const ReduceDef& def, const Attrs& attrs, const Tensor& input, DType type,
                       const TensorType& output) {
  const Ints& shape = input.shape();
  const Ints strides = dense_strides(shape);
  const auto& axes = attrs.get_ints("axes");
  Ints kept, kept_strides, reduced, reduced_strides;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool is_reduced = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
    (is_reduced ? reduced : kept).push_back(shape[d]);
    (is_reduced ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  const Column values = widen(input, is_float(type));
  const auto rows = static_cast<std::size_t>(count_of(kept));
  const auto length = static_cast<std::size_t>(count_of(reduced));

  Column out(is_float(type), rows);
  ColumnEvaluator pre(def.pre, std::span(&type, 1), type, attrs);
  const DType finish_types[] = {type, type};
  ColumnEvaluator finish(def.finish, finish_types, type, attrs);
  StridedWalk row(kept, kept_strides);
  for (std::size_t r = 0; r < rows; ++r, row.next()) {
    Scalar total = identity_of(def.combine, type);
    StridedWalk element(reduced, reduced_strides, row.offset());
    for (std::size_t begin = 0; begin < length; begin += ColumnEvaluator::kBlock) {
      const std::size_t n = std::min(ColumnEvaluator::kBlock, length - begin);
      Column& operand = pre.operand(0);
      for (std::size_t k = 0; k < n; ++k, element.next()) {
        const auto at = static_cast<std::size_t>(element.offset());
        if (operand.floats)
          operand.f[k] = values.f[at];
        else
          operand.i[k] = values.i[at];
      }
      accumulate(def.combine, compute_type(type), pre.run(n), n, total);
    }
    if (out.floats) {
      finish.operand(0).f[0] = total.f;
      finish.operand(1).f[0] = static_cast<double>(length);
      out.f[r] = finish.run(1).f[0];
    } else {
      finish.operand(0).i[0] = total.i;
      finish.operand(1).i[0] = wrap_to(type, static_cast<std::int64_t>(length));
      out.i[r] = finish.run(1).i[0];
    }
  }
  const Ints out_shape = concrete_shape(output.shape);
  return out.floats ? Tensor::from_doubles(output.dtype, out_shape, out.f)
                    : Tensor::from_ints(output.dtype, out_shape, out.i);
}

Tensor evaluate_pointwise(const PointwiseDef& def, const Attrs& attrs, Tensors inputs,
                          std::span<const DType> types, DType result, const TensorType& output) {
  const Ints shape = concrete_shape(output.shape);
  const auto count = static_cast<std::size_t>(count_of(shape));
  std::vector<Column> values;
  std::vector<StridedWalk> walks;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(widen(inputs[i], is_float(types[i])));
    walks.emplace_back(shape, broadcast_strides(inputs[i].shape(), shape));
  }
  Column out(is_float(result), count);
  ColumnEvaluator evaluator(def.expression(attrs), types, result, attrs);
  for (std::size_t begin = 0; begin < count; begin += ColumnEvaluator::kBlock) {
    const std::size_t n = std::min(ColumnEvaluator::kBlock, count - begin);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Column& operand = evaluator.operand(static_cast<int>(i));
      for (std::size_t k = 0; k < n; ++k, walks[i].next()) {
        const auto at = static_cast<std::size_t>(walks[i].offset());
        if (operand.floats)
          operand.f[k] = values[i].f[at];
        else
          operand.i[k] = values[i].i[at];
      }
    }
    const Column& block = evaluator.run(n);
    if (out.floats)
      std::copy_n(block.f.begin(), n, out.f.begin() + static_cast<std::ptrdiff_t>(begin));
    else
      std::copy_n(block.i.begin(), n, out.i.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return out.floats ? Tensor::from_doubles(output.dtype, shape, out.f)
                    : Tensor::from_ints(output.dtype, shape, out.i);
}

}  // namespace sinter::ir::reference
