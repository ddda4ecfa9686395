// SPDX-License-Identifier: Apache-2.0
#include "ir/scaled_rows.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::ir {
namespace {

// Lower bound of scales for rows of zeros, to avoid division by zero.
constexpr double kLeastScale = 0x1p-100;

// The eight largest numbers of f8e4m3fn, candidates for a row's largest magnitude: all smaller
// numbers have the same mantissas, up to a power of two.
constexpr double kLargestFloats[] = {448, 416, 384, 352, 320, 288, 256, 240};

ValueId as(GraphBuilder& builder, ValueId value, DType type) {
  if (builder.type(value).dtype == type) return value;
  return builder.add("Cast", {value}, {{"to", type}});
}

/// The factor of the scale, relative to the least scale by which `rows` were already divided.
/// Errors are in units of the least scale: they neither overflow nor vanish.
ValueId best_factor(GraphBuilder& builder, ValueId rows, std::int64_t axis) {
  constexpr DType kType = DType::kFloat8E4M3FN;
  const auto number = [&](double value) { return builder.scalar(kRowScaleType, value); };
  ValueId best = number(1), least;
  for (const double largest : kLargestFloats) {
    const double factor = kLargestFloats[0] / largest;
    const ValueId exact =
        factor == 1 ? rows : builder.add("Mul", {rows, number(largest / kLargestFloats[0])});
    const ValueId rounded = as(builder, as(builder, exact, kType), kRowScaleType);
    ValueId error = builder.add("ReduceSumSquare", {builder.add("Sub", {rounded, exact})},
                                {{"axes", Ints{axis}}, {"keepdims", std::int64_t{1}}});
    if (factor == 1) {
      least = error;
      continue;
    }
    error = builder.add("Mul", {error, number(factor * factor)});
    best = builder.add("Where", {builder.add("Less", {error, least}), number(factor), best});
    least = builder.add("Min", {error, least});
  }
  return best;
}

}  // namespace

ScaledRows add_scaled_rows(GraphBuilder& builder, ValueId x, DType type) {
  const double largest = codes_stored_as(type).largest;
  const auto number = [&](double value) { return builder.scalar(kRowScaleType, value); };
  const ValueId wide = as(builder, x, kRowScaleType);
  const auto last = static_cast<std::int64_t>(builder.type(x).shape.size()) - 1;
  const ValueId most = builder.add("ReduceMax", {builder.add("Abs", {wide})},
                                   {{"axes", Ints{last}}, {"keepdims", std::int64_t{1}}});
  ValueId scale =
      builder.add("Max", {builder.add("Mul", {most, number(1 / largest)}), number(kLeastScale)});
  ValueId values = builder.add("Quotient", {wide, scale});
  if (type == DType::kInt8) {
    values = builder.add("Round", {values});
  } else {
    scale = builder.add("Mul", {scale, best_factor(builder, values, last)});
    values = builder.add("Quotient", {wide, scale});
  }
  return {as(builder, values, type), scale};
}

std::optional<Graph> rows_before_rounding(const Graph& graph, const ScaledRows& rows, DType type) {
  GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ValueId> inputs;
  for (const ValueId input : graph.inputs())
    inputs.push_back(builder.input(graph.value(input).name, graph.type(input)));
  const ValueId made[] = {rows.values, rows.scales};
  const std::vector<ValueId> copies = inline_graph(builder, graph, inputs, made);
  const ScaledRows copy{copies[0], copies[1]};
  const DType rounded = builder.type(copy.values).dtype;
  // A builder shares equal nodes: recomputed rows are the same values.
  const Node* node = builder.producer(copy.values);
  while (node != nullptr && (node->op->name == "Cast" || node->op->name == "Round"))
    node = builder.producer(node->inputs[0]);
  if (!is_scaled_row_type(rounded) || node == nullptr || node->op->name != "Quotient")
    return std::nullopt;
  const ValueId exact = node->inputs[0];
  const ScaledRows again = add_scaled_rows(builder, exact, rounded);
  if (again.values != copy.values || again.scales != copy.scales) return std::nullopt;
  builder.output("exact", builder.add("Cast", {exact}, {{"to", type}}));
  return builder.finish();
}

std::optional<Graph> rows_before_rounding(const Graph& graph, DType type) {
  if (graph.outputs().size() != 2) return std::nullopt;
  const auto made = [&](ValueId output) {
    const Node* node = graph.producer(output);
    return node != nullptr && node->op->scatter() != nullptr ? node->inputs[1] : output;
  };
  const ValueId one = made(graph.outputs()[0]), other = made(graph.outputs()[1]);
  const bool is_first = is_scaled_row_type(graph.type(one).dtype);
  return rows_before_rounding(graph, is_first ? ScaledRows{one, other} : ScaledRows{other, one},
                              type);
}

ValueId add_dequantized_rows(GraphBuilder& builder, const ScaledRows& rows, DType type) {
  const ValueId wide = as(builder, rows.values, kRowScaleType);
  return as(builder, builder.add("Mul", {wide, rows.scales}), type);
}

namespace {

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
  const ValueId numbers = as(b, rows, DType::kFloat32);
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
    const ValueId numbers = as(b, rows(part), DType::kFloat32);
    if (groups == 1) return numbers;
    Shape shape = by_group;
    shape.back() = Dim(1);
    return reshaped(b, numbers, shape);
  };
  result = reshaped(b, result, by_group);
  if (weights.zero_points) result = b.add("Sub", {result, of_groups(*weights.zero_points)});
  result = b.add("Mul", {result, of_groups(weights.scales)});
  if (weights.offsets) result = b.add("Add", {result, of_groups(*weights.offsets)});
  return as(b, reshaped(b, result, whole), type);
}

}  // namespace sinter::ir
