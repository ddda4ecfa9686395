// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {
namespace {

/// `index` counted from the front; throws Error(kUsage) if it is out of range in dimension `d` of
/// `data`.
std::int64_t checked_index(std::int64_t index, const Tensor& data, std::size_t d) {
  const std::int64_t extent = data.shape()[d];
  if (index < -extent || index >= extent)
    throw Error(ErrorCode::kUsage,
                fmt::format("index {} is outside dimension {} of {}: expected {} to {}", index, d,
                            to_string(data.type()), -extent, extent - 1));
  return index < 0 ? index + extent : index;
}

/// For each element of `shape`, the offset in `data` given by `indices`, one for each of its
/// dimensions, broadcast to `shape`.
Ints offsets_of(const Tensor& data, Tensors indices, const Ints& shape) {
  Ints offsets(static_cast<std::size_t>(count_of(shape)), 0);
  const Ints strides = dense_strides(data.shape());
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const Ints index = indices[d].to_ints();
    StridedWalk walk(shape, broadcast_strides(indices[d].shape(), shape));
    for (std::int64_t& offset : offsets) {
      offset += strides[d] * checked_index(index[static_cast<std::size_t>(walk.offset())], data, d);
      walk.next();
    }
  }
  return offsets;
}

ScalarOp scatter_op_of(const std::string& combine) {
  if (combine == "sum") return ScalarOp::kAdd;
  if (combine == "prod") return ScalarOp::kMul;
  return combine == "max" ? ScalarOp::kMax : ScalarOp::kMin;
}

}  // namespace

std::vector<Tensor> evaluate_gather(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Tensor &data = inputs[0], &indices = inputs[1];
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  const std::int64_t extent = data.shape()[axis];
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < axis; ++d) outer *= data.shape()[d];
  for (std::size_t d = axis + 1; d < data.shape().size(); ++d) inner *= data.shape()[d];
  Ints rows = indices.to_ints();
  for (std::int64_t& row : rows) row = checked_index(row, data, axis);
  const std::size_t run = static_cast<std::size_t>(inner) * size_of(data.dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(outer) * rows.size() * run);
  std::byte* out = bytes.data();
  for (std::int64_t o = 0; o < outer && run > 0; ++o) {
    for (const std::int64_t row : rows) {
      std::memcpy(out, data.bytes().data() + static_cast<std::size_t>(o * extent + row) * run, run);
      out += run;
    }
  }
  const Tensor taken(data.dtype(), concrete_shape(outputs[0].shape),
                     Buffer::take(std::move(bytes)));
  return {convert(taken, outputs[0].dtype)};
}

std::vector<Tensor> evaluate_take(const Attrs&, Tensors inputs, Types outputs) {
  const Tensor& data = inputs[0];
  const Ints shape = concrete_shape(outputs[0].shape);
  const auto offsets = offsets_of(data, inputs.subspan(1), shape);
  const std::size_t size = size_of(data.dtype());
  std::vector<std::byte> bytes(offsets.size() * size);
  for (std::size_t i = 0; i < offsets.size(); ++i)
    std::memcpy(bytes.data() + i * size,
                data.bytes().data() + static_cast<std::size_t>(offsets[i]) * size, size);
  const Tensor taken(data.dtype(), shape, Buffer::take(std::move(bytes)));
  return {convert(taken, outputs[0].dtype)};
}

std::vector<Tensor> evaluate_scatter(const Attrs& attrs, Tensors inputs, Types outputs) {
  const DType type = inputs[0].dtype();
  const std::string& combine = attrs.get_string("combine");
  const auto offsets = offsets_of(inputs[0], inputs.subspan(2), inputs[1].shape());
  const Ints& shape = inputs[0].shape();
  const auto at = [&](std::size_t i) { return static_cast<std::size_t>(offsets[i]); };
  if (is_float(type)) {
    std::vector<double> result = inputs[0].to_doubles();
    const std::vector<double> updates = inputs[1].to_doubles();
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const Scalar args[] = {{result[at(i)], 0}, {updates[i], 0}};
      result[at(i)] =
          combine == "none"
              ? updates[i]
              : apply_scalar_op(scatter_op_of(combine), DType::kFloat64, DType::kFloat64, args).f;
    }
    return {Tensor::from_doubles(outputs[0].dtype, shape, result)};
  }
  Ints result = inputs[0].to_ints();
  const Ints updates = inputs[1].to_ints();
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Scalar args[] = {{0, result[at(i)]}, {0, updates[i]}};
    result[at(i)] = combine == "none" ? updates[i]
                                      : apply_scalar_op(scatter_op_of(combine), type, type, args).i;
  }
  return {Tensor::from_ints(type, shape, result)};
}

std::vector<Tensor> evaluate_iota(const Attrs& attrs, Tensors, Types outputs) {
  const Ints shape = concrete_shape(outputs[0].shape);
  Ints strides(shape.size(), 0);
  strides[static_cast<std::size_t>(attrs.get_int("axis"))] = 1;
  Ints values(static_cast<std::size_t>(count_of(shape)));
  StridedWalk walk(shape, strides);
  for (std::int64_t& value : values) {
    value = walk.offset();
    walk.next();
  }
  if (!is_float(outputs[0].dtype)) return {Tensor::from_ints(outputs[0].dtype, shape, values)};
  const std::vector<double> floats(values.begin(), values.end());
  return {Tensor::from_doubles(outputs[0].dtype, shape, floats)};
}

std::vector<Tensor> evaluate_size(const Attrs& attrs, Tensors, Types outputs) {
  const std::int64_t value = attrs.get_dims("value").at(0).value();
  if (!is_float(outputs[0].dtype)) return {Tensor::from_ints(outputs[0].dtype, {}, {&value, 1})};
  return {Tensor::scalar(outputs[0].dtype, static_cast<double>(value))};
}

}  // namespace sinter::ir::reference
