// SPDX-License-Identifier: Apache-2.0
#include "ir/quantized.h"

#include <vector>

#include "ir/parallel.h"

namespace sinter::ir {
namespace {

constexpr std::size_t kRowsAtOnce = 64;  // per thread

}  // namespace

std::int64_t group_count(std::int64_t k, std::int64_t group) {
  return group == 0 ? 1 : k / group + (k % group != 0 ? 1 : 0);
}

Tensor pack_four_bits(std::span<const std::int8_t> values, std::int64_t rows,
                      std::int64_t columns) {
  const auto width = static_cast<std::size_t>(columns), pitch = (width + 1) / 2;
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * pitch);
  for_each_range(
      static_cast<std::size_t>(rows), kRowsAtOnce, [&](std::size_t row, std::size_t end) {
        for (; row < end; ++row) {
          const std::int8_t* from = values.data() + row * width;
          std::byte* to = bytes.data() + row * pitch;
          const auto half = [](std::int8_t value) {
            return static_cast<unsigned>(value + 8) & 15U;
          };
          for (std::size_t i = 0; i < width / 2; ++i)
            to[i] = static_cast<std::byte>(half(from[2 * i]) | half(from[2 * i + 1]) << 4);
          if (width % 2 != 0) to[width / 2] = static_cast<std::byte>(half(from[width - 1]) | 0x80U);
        }
      });
  return Tensor(DType::kUInt8, {rows, static_cast<std::int64_t>(pitch)},
                Buffer::take(std::move(bytes)));
}

Tensor unpacked_values(const QuantizedWeights& weights) {
  if (weights.bits == 8) return weights.values;
  const auto width = static_cast<std::size_t>(weights.k), pitch = (width + 1) / 2;
  std::vector<std::byte> bytes(static_cast<std::size_t>(weights.n()) * width);
  const std::span<const std::byte> packed = weights.values.bytes();
  const auto n = static_cast<std::size_t>(weights.n());
  for_each_range(n, kRowsAtOnce, [&](std::size_t row, std::size_t end) {
    for (; row < end; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        const int both = std::to_integer<int>(packed[row * pitch + i / 2]);
        bytes[row * width + i] = static_cast<std::byte>((i % 2 == 0 ? both & 15 : both >> 4) - 8);
      }
    }
  });
  return Tensor(DType::kInt8, {weights.n(), weights.k}, Buffer::take(std::move(bytes)));
}

namespace {

Tensor multiplied(const QuantizedWeights& weights, DType dtype) {
  const Tensor values = unpacked_values(weights);
  const std::span<const std::byte> q = values.bytes();
  // The number that each byte represents.
  std::vector<std::byte> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  const std::vector<double> numbers =
      Tensor(values.dtype(), {256}, Buffer::take(std::move(codes))).to_doubles();
  const std::vector<double> scales = weights.scales.to_doubles();
  const std::vector<double> zeros =
      weights.zero_points ? weights.zero_points->to_doubles() : std::vector<double>();
  const auto width = static_cast<std::size_t>(weights.k);
  const std::size_t group = weights.group == 0 ? width : static_cast<std::size_t>(weights.group);
  const auto groups = static_cast<std::size_t>(group_count(weights.k, weights.group));
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(q.size() * size);
  for_each_range(
      static_cast<std::size_t>(weights.n()), kRowsAtOnce, [&](std::size_t first, std::size_t last) {
        std::byte* out = bytes.data() + first * width * size;
        for (std::size_t row = first; row < last; ++row) {
          for (std::size_t i = 0; i < width; ++i, out += size) {
            const std::size_t at = row * groups + i / group;
            const double zero = zeros.empty() ? 0 : zeros[at];
            store_double(
                dtype, out,
                (numbers[std::to_integer<std::size_t>(q[row * width + i])] - zero) * scales[at]);
          }
        }
      });
  return Tensor(dtype, {weights.n(), weights.k}, Buffer::take(std::move(bytes)));
}

}  // namespace

const Transform kDequantized = {
    "dequantized",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t bits = attrs.get_int("bits"), group = attrs.get_int("group"),
                         k = attrs.get_int("k");
      if (inputs.size() < 2 || inputs.size() > 3 || !has_inputs(inputs, inputs.size(), 2) ||
          !is_float(attrs.get_dtype("type")) || group < 0)
        return false;
      const auto& shape = inputs[0].shape();
      const bool is_packed = bits == 4;
      const bool fits =
          is_packed ? inputs[0].dtype() == DType::kUInt8 && k >= 0 && k / 2 + k % 2 == shape[1]
                    : bits == 8 && k == shape[1] &&
                          (inputs[0].dtype() == DType::kInt8 ||
                           (inputs[0].dtype() == DType::kFloat8E4M3FN && inputs.size() == 2));
      return fits && std::ranges::all_of(inputs.subspan(1), [&](const Tensor& input) {
               return input.shape() == Ints{shape[0], group_count(k, group)};
             });
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      return std::vector{
          multiplied(weights_of(attrs, inputs, attrs.get_int("k")), attrs.get_dtype("type"))};
    }};

Tensor dequantized(const QuantizedWeights& weights, DType dtype) {
  std::vector<Tensor> operands{weights.values, weights.scales};
  if (weights.zero_points) operands.push_back(*weights.zero_points);
  return apply(kDequantized,
               {{"bits", std::int64_t{weights.bits}},
                {"group", weights.group},
                {"k", weights.k},
                {"type", dtype}},
               operands)
      .front();
}

QuantizedWeights weights_of(const Attrs& attrs, std::span<const Tensor> operands, std::int64_t k) {
  QuantizedWeights result{static_cast<int>(attrs.get_int("bits")),
                          attrs.get_int("group"),
                          k,
                          operands[0],
                          operands[1],
                          std::nullopt};
  if (operands.size() > 2) result.zero_points = operands[2];
  return result;
}

}  // namespace sinter::ir
