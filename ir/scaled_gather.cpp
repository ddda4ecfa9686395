// SPDX-License-Identifier: Apache-2.0
#include "ir/scaled_gather.h"

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::ir {
namespace {

ValueId cast(GraphBuilder& b, ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", type}});
}

ValueId reshaped(GraphBuilder& b, ValueId value, const Shape& shape) {
  return b.type(value).shape == shape ? value : b.add("Reshape", {value}, {{"shape", shape}});
}

/// Nibbles [.., k / 2] as codes [.., k].
ValueId unpacked(GraphBuilder& b, ValueId rows, std::int64_t k) {
  Shape shape = b.type(rows).shape, split = shape;
  split.emplace_back(1);
  shape.back() *= Dim(2);
  const auto bytes = [&](Ints dims, const std::vector<std::uint8_t>& values) {
    return b.constant(Tensor::of(DType::kUInt8, std::move(dims), values));
  };
  ValueId codes = b.add("Reshape", {rows}, {{"shape", split}});
  codes = b.add("ShiftRight", {codes, bytes({2}, {0, 4})});
  codes = b.add("BitwiseAnd", {codes, bytes({}, {15})});
  codes = b.add("Reshape", {codes}, {{"shape", shape}});
  if (shape.back() == Dim(k)) return codes;
  shape.back() = Dim(k);
  return b.add("Slice", {codes},
               {{"starts", std::vector<Dim>(shape.size(), Dim(0))},
                {"steps", Ints(shape.size(), 1)},
                {"shape", shape}});
}

}  // namespace

ValueId add_numbers(GraphBuilder& b, const CodeType& codes, ValueId rows, std::int64_t k) {
  if (codes.bits == 4) rows = unpacked(b, rows, k);
  if (codes.numbers != nullptr) {
    const std::vector<double> numbers(codes.numbers, codes.numbers + (1 << codes.bits));
    const ValueId table =
        b.constant(Tensor::from_doubles(DType::kFloat32, {std::ssize(numbers)}, numbers));
    return b.add("Take", {table, b.add("Cast", {rows}, {{"to", DType::kInt64}})});
  }
  const ValueId numbers = cast(b, rows, DType::kFloat32);
  constexpr double kMiddle = 8;
  return codes.bits == 4 ? b.add("Sub", {numbers, b.scalar(DType::kFloat32, kMiddle)}) : numbers;
}

ValueId add_gathered(GraphBuilder& b, const ScaledTensor& weights, ValueId indices, DType type) {
  const ScaleFormat& format = weights.format;
  const std::int64_t groups = format.groups(weights.k);
  if (!format.has_rows_of_scales() || weights.k % groups != 0 ||
      (format.depth != 0 && groups * format.depth != weights.k && groups != 1))
    throw Error(ErrorCode::kUnsupported, fmt::format("rows of {} columns in '{}' are gathered",
                                                     weights.k, format.to_string()));
  if (weights.factors || !is_arithmetic_float(format.scale))
    return add_gathered(b, with_plain_scales(weights), indices, type);
  const auto rows = [&](const Tensor& part) {
    return b.add("Gather", {b.constant(part), indices}, {{"axis", std::int64_t{0}}});
  };
  ValueId result = add_numbers(b, *format.codes, rows(weights.values), weights.k);
  const Shape whole = b.type(result).shape;
  Shape by_group = whole;
  if (groups > 1) {
    by_group.back() = Dim(groups);
    by_group.emplace_back(weights.k / groups);
  }
  const auto of_groups = [&](const Tensor& part) {
    const ValueId numbers = cast(b, rows(part), DType::kFloat32);
    if (groups == 1) return numbers;
    Shape shape = by_group;
    shape.back() = Dim(1);
    return reshaped(b, numbers, shape);
  };
  result = reshaped(b, result, by_group);
  if (weights.zero_points) result = b.add("Sub", {result, of_groups(*weights.zero_points)});
  result = b.add("Mul", {result, of_groups(weights.scales)});
  if (weights.offsets) result = b.add("Add", {result, of_groups(*weights.offsets)});
  return cast(b, reshaped(b, result, whole), type);
}

}  // namespace sinter::ir
