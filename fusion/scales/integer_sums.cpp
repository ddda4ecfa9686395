// SPDX-License-Identifier: Apache-2.0
// Differences of constant 8-bit integers from their zero points, and their sums.
#include <algorithm>

#include "fusion/transforms.h"
#include "ir/ops/product_types.h"

namespace sinter::fusion {
namespace {

/// Difference between an unsigned value and the signed one that represents it.
constexpr int kShift = 128;
/// Visits the offset by `strides` of each element of a tensor of `shape`, in row-major order.
template <typename Visit>
void for_each_offset(const Ints& shape, const Ints& strides, const Visit& visit) {
  const std::size_t rank = shape.size();
  Ints index(rank, 0);
  std::int64_t count = 1, offset = 0;
  for (const std::int64_t size : shape) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
    for (std::size_t d = rank; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Strides of a dense tensor of shape `own` that broadcasts to `shape`.
Ints broadcast_strides(const Ints& own, const Ints& shape) {
  Ints strides(shape.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t d = own.size(); d-- > 0;) {
    if (own[d] != 1) strides[shape.size() - own.size() + d] = stride;
    stride *= own[d];
  }
  return strides;
}

bool broadcasts_to(const Ints& own, const Ints& shape) {
  if (own.size() > shape.size()) return false;
  for (std::size_t d = 0; d < own.size(); ++d)
    if (own[d] != 1 && own[d] != shape[shape.size() - own.size() + d]) return false;
  return true;
}

int load(const Tensor& tensor, std::span<const std::byte> bytes, std::size_t i) {
  const int byte = std::to_integer<int>(bytes[i]);
  return tensor.dtype() == DType::kInt8 && byte >= kShift ? byte - 2 * kShift : byte;
}

}  // namespace

/// Inputs are 8-bit integers and zero points that broadcast to them. Results: whether all
/// differences fit signed 8 bits, then the differences.
const ir::Transform kIntegerDifference = {
    "integer_difference",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 2) && ir::is_eight_bit_integer(inputs[0].dtype()) &&
             is_integer(inputs[1].dtype()) && broadcasts_to(inputs[1].shape(), inputs[0].shape());
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const ir::HeldBytes held = inputs[0].hold();
      const Ints zeros = inputs[1].to_ints();
      std::vector<std::int8_t> result(held.bytes.size());
      bool fits = true;
      for_each_offset(inputs[0].shape(), broadcast_strides(inputs[1].shape(), inputs[0].shape()),
                      [&](std::size_t i, std::size_t zero) {
                        const std::int64_t value = load(inputs[0], held.bytes, i) - zeros[zero];
                        fits = fits && value >= -kShift && value < kShift;
                        result[i] = static_cast<std::int8_t>(value);
                      });
      std::vector<Tensor> results{Tensor::scalar(DType::kBool, fits ? 1 : 0)};
      if (fits) results.push_back(Tensor::of(DType::kInt8, inputs[0].shape(), result));
      return results;
    },
    1};

/// The int32 sums of 8-bit integers over the dimensions "axes", which are kept with size 1.
const ir::Transform kIntegerSums = {
    "integer_sums",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!ir::has_inputs(inputs, 1) || !ir::is_eight_bit_integer(inputs[0].dtype())) return false;
      return std::ranges::all_of(attrs.get_ints("axes"), [&](std::int64_t axis) {
        return axis >= 0 && axis < std::ssize(inputs[0].shape());
      });
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const ir::HeldBytes held = inputs[0].hold();
      Ints shape = inputs[0].shape();
      std::int64_t count = 1;
      for (const std::int64_t axis : attrs.get_ints("axes"))
        shape[static_cast<std::size_t>(axis)] = 1;
      for (const std::int64_t size : shape) count *= size;
      std::vector<std::int32_t> sums(static_cast<std::size_t>(count), 0);
      for_each_offset(inputs[0].shape(), broadcast_strides(shape, inputs[0].shape()),
                      [&](std::size_t i, std::size_t offset) {
                        sums[offset] += load(inputs[0], held.bytes, i);
                      });
      return std::vector{Tensor::of(DType::kInt32, shape, sums)};
    }};

}  // namespace sinter::fusion
