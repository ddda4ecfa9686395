// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/reference/kernels.h"

namespace sinter::ir::reference {
namespace {

std::size_t checked(std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent)
    throw Error(ErrorCode::kUsage, fmt::format("index {} is outside {} rows: expected {} to {}",
                                               index, extent, -extent, extent - 1));
  return static_cast<std::size_t>(index < 0 ? index + extent : index);
}

/// One value of either kind.
using Number = Scalar;

ScalarOp op_named(const std::string& combine) {
  for (int c = 0; c < kCombineCount; ++c)
    if (combine == to_string(static_cast<Combine>(c))) return op_of(static_cast<Combine>(c));
  return ScalarOp::kSelect;  // none: replaces
}

/// Rows that values are combined with, floats in float64.
class Rows {
 public:
  Rows(const Attrs& attrs, Tensors inputs, const TensorType& output)
      : op_(op_named(attrs.get_string("combine"))),
        type_(inputs[0].dtype()),
        output_(output),
        width_(output.shape[1].value()),
        values_(numbers(inputs[1])),
        rows_(static_cast<std::size_t>(output.shape[0].value() * width_)) {
    const std::vector<Number> data = numbers(inputs[0]);
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i] = data[data.size() == 1 ? 0 : i];
  }

  static std::vector<Number> numbers(const Tensor& tensor) {
    std::vector<Number> result(static_cast<std::size_t>(tensor.element_count()));
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (is_float(tensor.dtype()))
        result[i].f = tensor.at(static_cast<std::int64_t>(i));
      else
        result[i].i = tensor.at_int(static_cast<std::int64_t>(i));
    }
    return result;
  }

  /// `factor`: null is one.
  void add(std::size_t row, std::size_t value, const Number* factor) {
    for (std::size_t c = 0; c < width(); ++c) add_element(row, value * width() + c, factor);
  }
  /// Of element `value` of the values, to the same column.
  void add_element(std::size_t row, std::size_t value, const Number* factor = nullptr) {
    Number& at = rows_[row * width() + value % width()];
    Number x = values_[value];
    if (factor != nullptr) x = apply(ScalarOp::kMul, x, *factor);
    at = op_ == ScalarOp::kSelect ? x : apply(op_, at, x);
  }
  std::size_t width() const { return static_cast<std::size_t>(width_); }

  std::vector<Tensor> result() const {
    const Ints shape = concrete_shape(output_.shape);
    std::vector<double> floats;
    Ints integers;
    for (const Number& each : rows_) {
      floats.push_back(each.f);
      integers.push_back(each.i);
    }
    if (is_float(type_)) return {Tensor::from_doubles(output_.dtype, shape, floats)};
    return {Tensor::from_ints(output_.dtype, shape, integers)};
  }

 private:
  Number apply(ScalarOp op, const Number& a, const Number& b) const {
    const Scalar args[] = {a, b};
    const DType type = is_float(type_) ? DType::kFloat64 : type_;
    return apply_scalar_op(op, type, type, args);
  }

  ScalarOp op_;
  DType type_;
  const TensorType& output_;
  std::int64_t width_;
  std::vector<Number> values_, rows_;
};

}  // namespace

std::vector<Tensor> evaluate_group_by_index(const Attrs& attrs, Tensors inputs, Types) {
  const std::int64_t extent = attrs.get_dims("extent")[0].value();
  const Ints index = inputs[0].to_ints();
  Ints starts(static_cast<std::size_t>(extent) + 1, 0), order(index.size());
  for (const std::int64_t i : index) ++starts[checked(i, extent) + 1];
  for (std::size_t r = 1; r < starts.size(); ++r) starts[r] += starts[r - 1];
  Ints next = starts;
  for (std::size_t i = 0; i < index.size(); ++i)
    order[static_cast<std::size_t>(next[checked(index[i], extent)]++)] =
        static_cast<std::int64_t>(i);
  return {Tensor::from_ints(DType::kInt32, {std::ssize(order)}, order),
          Tensor::from_ints(DType::kInt32, {extent + 1}, starts)};
}

std::vector<Tensor> evaluate_last_by_index(const Attrs& attrs, Tensors inputs, Types) {
  const std::int64_t extent = attrs.get_dims("extent")[0].value();
  const Ints index = inputs[0].to_ints();
  Ints last(static_cast<std::size_t>(extent), -1);
  for (std::size_t i = 0; i < index.size(); ++i)
    last[checked(index[i], extent)] = static_cast<std::int64_t>(i);
  return {Tensor::from_ints(DType::kInt32, {extent}, last)};
}

std::vector<Tensor> evaluate_combine_groups(const Attrs& attrs, Tensors inputs, Types outputs) {
  Rows rows(attrs, inputs, outputs[0]);
  const Ints order = inputs[2].to_ints(), starts = inputs[3].to_ints();
  const auto factors = inputs.size() > 4 ? Rows::numbers(inputs[4]) : std::vector<Number>();
  for (std::size_t r = 0; r + 1 < starts.size(); ++r)
    for (auto i = static_cast<std::size_t>(starts[r]); i < static_cast<std::size_t>(starts[r + 1]);
         ++i)
      rows.add(r, checked(order[i], inputs[1].shape()[0]), factors.empty() ? nullptr : &factors[i]);
  return rows.result();
}

std::vector<Tensor> evaluate_combine_table(const Attrs& attrs, Tensors inputs, Types outputs) {
  Rows rows(attrs, inputs, outputs[0]);
  const Ints index = inputs[2].to_ints();
  const std::int64_t extent = outputs[0].shape[0].value();
  const bool by_element = inputs[2].shape().size() == 2;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (by_element)
      rows.add_element(checked(index[i], extent), i);
    else
      rows.add(checked(index[i], extent), i, nullptr);
  }
  return rows.result();
}

}  // namespace sinter::ir::reference
