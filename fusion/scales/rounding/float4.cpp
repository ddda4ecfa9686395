// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/rounding/float4.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fusion/transforms.h"
#include "ir/reference/evaluate.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {

/// Whether all numbers are floats of 4 bits.
const ir::Transform kHasFloat4 = {
    "has_float4",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 1) && is_float8(inputs[0].dtype());
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const std::vector<int> codes = float4_codes_of(inputs[0].dtype());
      const ir::HeldBytes held = inputs[0].hold();
      const bool has = std::ranges::all_of(held.bytes, [&](std::byte code) {
        return codes[std::to_integer<std::size_t>(code)] >= 0;
      });
      return std::vector{Tensor::scalar(DType::kBool, has ? 1 : 0)};
    },
    1};

/// Rows [n, k] of floats of 8 bits as codes of 4, even columns in the low nibbles.
const ir::Transform kPackedFloat4 = {
    "packed_float4",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 1, 2) && is_float8(inputs[0].dtype()) &&
             inputs[0].shape()[1] % 2 == 0;
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const std::vector<int> codes = float4_codes_of(inputs[0].dtype());
      const ir::HeldBytes held = inputs[0].hold();
      std::vector<std::uint8_t> bytes(held.bytes.size() / 2);
      for (std::size_t i = 0; i < held.bytes.size(); ++i)
        bytes[i / 2] |= static_cast<std::uint8_t>(
            (codes[std::to_integer<std::size_t>(held.bytes[i])] & 15) << (i % 2 * 4));
      return std::vector{
          Tensor::of(DType::kUInt8, {inputs[0].shape()[0], inputs[0].shape()[1] / 2}, bytes)};
    }};

/// The numbers of rows of `k` codes of 4 bits, in units of half of one or as the codes have it.
const ir::Transform kDoubledCodes = {
    "doubled_codes",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t k = attrs.get_int("k");
      const ir::CodeType* const codes = ir::find_code_type(attrs.get_string("codes"));
      return codes != nullptr && codes->numbers != nullptr && ir::has_inputs(inputs, 1, 2) &&
             inputs[0].dtype() == codes->stored && k >= 0 && inputs[0].shape()[1] == k / 2 + k % 2;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t n = inputs[0].shape()[0], k = attrs.get_int("k");
      const auto numbers = ir::numbers_in_units(*ir::find_code_type(attrs.get_string("codes")));
      const ir::HeldBytes held = inputs[0].hold();
      std::vector<std::int8_t> values;
      values.reserve(static_cast<std::size_t>(n * k));
      for (std::int64_t row = 0; row < n; ++row)
        for (std::int64_t i = 0; i < k; ++i) {
          const int both = std::to_integer<int>(
              held.bytes[static_cast<std::size_t>(row * inputs[0].shape()[1] + i / 2)]);
          values.push_back(numbers[static_cast<std::size_t>(i % 2 == 0 ? both & 15 : both >> 4)]);
        }
      return std::vector{Tensor::of(DType::kInt8, {n, k}, values)};
    }};

/// Whether all numbers are powers of two that e8m0 has, and their codes.
const ir::Transform kPowersOfTwo = {
    "powers_of_two",
    [](const Attrs&, std::span<const Tensor> inputs) {
      return ir::has_inputs(inputs, 1) && is_arithmetic_float(inputs[0].dtype());
    },
    [](const Attrs&, std::span<const Tensor> inputs) {
      constexpr int kBias = 127;
      std::vector<std::uint8_t> codes;
      bool are = true;
      for (const double number : inputs[0].to_doubles()) {
        const int power = std::isfinite(number) && number > 0 ? std::ilogb(number) : -kBias - 1;
        are = are && std::abs(power) <= kBias && std::ldexp(1.0, power) == number;
        codes.push_back(static_cast<std::uint8_t>(are ? power + kBias : 0));
      }
      return std::vector{Tensor::scalar(DType::kBool, are ? 1 : 0),
                         Tensor::of(DType::kUInt8, inputs[0].shape(), codes)};
    },
    1};

ir::ScaledTensor with_narrow_scales(ir::ScaledTensor weights, const std::optional<Tensor>& factor) {
  if (is_float8(weights.scales.dtype())) {
    if (factor) weights.factors = ir::factors_of_rows(*factor, weights.n());
  } else {
    const std::vector<Tensor> made = ir::apply(kPowersOfTwo, {}, std::span(&weights.scales, 1));
    if (made[0].at_int(0) != 0) weights.scales = made[1];
  }
  weights.format.scale = weights.scales.dtype();
  weights.format.has_factors = weights.factors.has_value();
  return weights;
}

std::vector<int> float4_codes_of(DType type) {
  std::vector<int> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto byte = static_cast<std::byte>(i);
    codes[i] = ir::float4_codes().code_of(ir::load_as_double(type, &byte)).value_or(-1);
  }
  return codes;
}

bool are_float4(const Tensor& values) {
  return ir::apply(kHasFloat4, {}, std::span(&values, 1)).front().at_int(0) != 0;
}

bool is_float4_table(const Tensor& rows) {
  return is_float8(rows.dtype()) && rows.shape().size() == 2 && rows.shape()[1] % 2 == 0 &&
         are_float4(rows);
}

ValueId add_gathered_float4(GraphBuilder& builder, const Tensor& rows, ValueId indices) {
  const Tensor packed = ir::apply(kPackedFloat4, {}, std::span(&rows, 1)).front();
  const ValueId bytes =
      builder.add("Gather", {builder.constant(packed), indices}, {{"axis", std::int64_t{0}}});
  return ir::add_numbers(builder, ir::float4_codes(), bytes, rows.shape()[1]);
}

ir::ScaledTensor as_integers(const ir::ScaledTensor& weights) {
  const Attrs attrs{{"codes", std::string(weights.format.codes->name)}, {"k", weights.k}};
  const Tensor values = ir::apply(kDoubledCodes, attrs, std::span(&weights.values, 1)).front();
  const bool is_plain = is_arithmetic_float(weights.format.scale);
  const Tensor scales = is_plain ? weights.scales : ir::with_plain_scales(weights).scales;
  const Tensor inputs[] = {scales, Tensor::scalar(scales.dtype(), weights.format.codes->unit)};
  return ir::scaled_rows_of(8, weights.format.depth, weights.k, values,
                            ir::evaluate_op(ir::get_op("Mul"), {}, inputs).front(), std::nullopt);
}

}  // namespace sinter::fusion
