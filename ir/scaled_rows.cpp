#include "ir/scaled_rows.h"

namespace sinter::ir {
namespace {

// Of rows without a number but zero, so that nothing is divided by zero.
constexpr double kLeastScale = 0x1p-100;

ValueId as(GraphBuilder& builder, ValueId value, DType type) {
  if (builder.type(value).dtype == type) return value;
  return builder.add("Cast", {value}, {{"to", type}});
}

}  // namespace

ScaledRows add_scaled_rows(GraphBuilder& builder, ValueId x, DType type) {
  const double largest = type == DType::kInt8 ? 127 : 448;
  const auto number = [&](double value) { return builder.scalar(kRowScaleType, value); };
  const ValueId wide = as(builder, x, kRowScaleType);
  const auto last = static_cast<std::int64_t>(builder.type(x).shape.size()) - 1;
  const ValueId most = builder.add("ReduceMax", {builder.add("Abs", {wide})},
                                   {{"axes", Ints{last}}, {"keepdims", std::int64_t{1}}});
  const ValueId scale =
      builder.add("Max", {builder.add("Mul", {most, number(1 / largest)}), number(kLeastScale)});
  ValueId values = builder.add("Quotient", {wide, scale});
  if (type == DType::kInt8) values = builder.add("Round", {values});
  return {as(builder, values, type), scale};
}

ValueId add_dequantized_rows(GraphBuilder& builder, const ScaledRows& rows, DType type) {
  const ValueId wide = as(builder, rows.values, kRowScaleType);
  return as(builder, builder.add("Mul", {wide, rows.scales}), type);
}

}  // namespace sinter::ir
