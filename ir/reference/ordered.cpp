// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/reference/columns.h"
#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {
namespace {

/// Calls `visit(first element, stride)` for each row along `axis`.
template <typename Visit>
void for_each_row(const Ints& shape, std::size_t axis, const Visit& visit) {
  const Ints strides = dense_strides(shape);
  Ints rows = shape;
  rows[axis] = 1;
  StridedWalk row(rows, strides);
  for (std::int64_t r = 0, count = count_of(rows); r < count; ++r, row.next())
    visit(row.offset(), strides[axis]);
}

std::size_t axis_of(const Attrs& attrs) { return static_cast<std::size_t>(attrs.get_int("axis")); }

/// Whether `a` precedes `b` in ascending order: NaN is last.
bool before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

}  // namespace

std::vector<Tensor> evaluate_scan(Combine combine, const Attrs& attrs, Tensors inputs,
                                  Types outputs) {
  const DType type = outputs[0].dtype;
  const bool exclusive = attrs.get_int("exclusive") != 0, reverse = attrs.get_int("reverse") != 0;
  const std::size_t axis = axis_of(attrs);
  const Ints& shape = inputs[0].shape();
  const Column from = widen(inputs[0], is_float(type));
  Column to = from;
  // Float32 sums stay wide until stored; integers wrap at their type.
  const DType wide = is_float(type) ? DType::kFloat64 : type;
  for_each_row(shape, axis, [&](std::int64_t first, std::int64_t stride) {
    Scalar total = identity_of(combine, type);
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      const auto at =
          static_cast<std::size_t>(first + stride * (reverse ? shape[axis] - 1 - i : i));
      const Scalar before = total;
      const Scalar args[] = {total, from.floats ? Scalar{from.f[at], 0} : Scalar{0, from.i[at]}};
      total = apply_scalar_op(op_of(combine), wide, wide, args);
      const Scalar& result = exclusive ? before : total;
      if (to.floats)
        to.f[at] = result.f;
      else
        to.i[at] = result.i;
    }
  });
  return {to.floats ? Tensor::from_doubles(type, shape, to.f)
                    : Tensor::from_ints(type, shape, to.i)};
}

std::vector<Tensor> evaluate_arg_sort(const Attrs& attrs, Tensors inputs, Types outputs) {
  const bool descending = attrs.get_int("descending") != 0;
  const std::size_t axis = axis_of(attrs);
  const Ints& shape = inputs[0].shape();
  const Ints out_shape = concrete_shape(outputs[0].shape);
  const std::int64_t out_stride = dense_strides(out_shape)[axis];
  const Column keys = widen(inputs[0], is_float(inputs[0].dtype()));
  const bool is_unsigned = inputs[0].dtype() == DType::kUInt64;
  Ints indices(static_cast<std::size_t>(count_of(out_shape)));
  Ints order(static_cast<std::size_t>(shape[axis]));
  // Rows of the result are in the order of the input's.
  Ints firsts;
  for_each_row(out_shape, axis, [&](std::int64_t first, std::int64_t) { firsts.push_back(first); });
  std::size_t row = 0;
  for_each_row(shape, axis, [&](std::int64_t first, std::int64_t stride) {
    const auto less = [&](std::int64_t a, std::int64_t b) {
      const auto i = static_cast<std::size_t>(first + a * stride);
      const auto j = static_cast<std::size_t>(first + b * stride);
      if (keys.floats) return before(keys.f[i], keys.f[j]);
      if (is_unsigned)
        return static_cast<std::uint64_t>(keys.i[i]) < static_cast<std::uint64_t>(keys.i[j]);
      return keys.i[i] < keys.i[j];
    };
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
      return descending ? less(b, a) : less(a, b);
    });
    for (std::int64_t i = 0; i < out_shape[axis]; ++i)
      indices[static_cast<std::size_t>(firsts[row] + i * out_stride)] =
          order[static_cast<std::size_t>(i)];
    ++row;
  });
  return {Tensor::from_ints(DType::kInt64, out_shape, indices)};
}

}  // namespace sinter::ir::reference
