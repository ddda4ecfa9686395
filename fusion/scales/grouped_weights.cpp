// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/grouped_weights.h"

#include <algorithm>

#include "fusion/transforms.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

/// Matrices with their dimensions swapped.
Tensor swapped(const Tensor& matrices) {
  return ir::evaluate_op(ir::get_op("Transpose"), {{"perm", Ints{0, 2, 1}}},
                         std::span(&matrices, 1))
      .at(0);
}

bool is_transposed(const Node& node) { return node.attrs.get_int("transposed") != 0; }

}  // namespace

bool is_plain_grouped(const Node& node) {
  return node.op->name == "GroupedMatMul" && !ir::ProductFormats(node.attrs).w;
}

Tensor rows_of_groups(const Node& node, const Tensor& operand) {
  const Tensor rows = is_transposed(node) ? operand : swapped(operand);
  const Ints& shape = rows.shape();
  return rows.reshaped({shape[0] * shape[1], shape[2]});
}

Tensor operand_of_rows(const Node& node, const Tensor& rows, std::int64_t groups) {
  const Tensor matrices = rows.reshaped({groups, rows.shape()[0] / groups, rows.shape()[1]});
  return is_transposed(node) ? matrices : swapped(matrices);
}

std::vector<Tensor> parts_of_groups(const ir::ScaledTensor& weights, std::int64_t groups) {
  std::vector<Tensor> parts = ir::parts_of(weights);
  for (Tensor& part : parts)
    part = part.reshaped({groups, part.shape()[0] / groups, part.shape()[1]});
  return parts;
}

Tensor dequantized_groups(const Node& node, std::span<const Tensor> parts, std::int64_t k,
                          DType type) {
  std::vector<Tensor> rows;
  for (const Tensor& part : parts)
    rows.push_back(part.reshaped({part.shape()[0] * part.shape()[1], part.shape()[2]}));
  const std::int64_t groups = parts[0].shape()[0];
  const Tensor numbers = ir::dequantized(ir::weights_of(node.attrs, rows, k), type);
  return numbers.reshaped({groups, numbers.shape()[0] / groups, k});
}

ValueId group_of_rows(GraphBuilder& builder, ValueId offsets, const Dim& rows,
                      std::int64_t groups) {
  const auto number = [&](std::int64_t value) {
    return builder.scalar(DType::kInt32, static_cast<double>(value));
  };
  // Where rows were sorted by their groups, these are known.
  const Node* sort = builder.producer(offsets);
  if (sort != nullptr && sort->op->name == "GroupByIndex" && offsets == sort->outputs[1] &&
      builder.type(sort->outputs[0]).shape == Shape{rows}) {
    const ValueId group =
        builder.add("Gather", {sort->inputs[0], sort->outputs[0]}, {{"axis", std::int64_t{0}}});
    return builder.add("Min", {group, number(groups - 1)});
  }
  const auto iota = builder.add(
      "Iota", {},
      {{"shape", Shape{rows, Dim(1)}}, {"axis", std::int64_t{0}}, {"dtype", DType::kInt32}});
  const ValueId ends =
      builder.add("Slice", {offsets},
                  {{"starts", Shape{Dim(1)}}, {"steps", Ints{1}}, {"shape", Shape{Dim(groups)}}});
  const ValueId ended =
      builder.add("GreaterOrEqual",
                  {iota, builder.add("Reshape", {ends}, {{"shape", Shape{Dim(1), Dim(groups)}}})});
  const ValueId group =
      builder.add("ReduceSum", {builder.add("Cast", {ended}, {{"to", DType::kInt32}})},
                  {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  return builder.add("Min", {group, number(groups - 1)});
}

std::optional<Piece> with_power_scales(ConstantValues& values, const Node& node) {
  if (node.op->name != "MatMul" && node.op->name != "GroupedMatMul") return std::nullopt;
  const ir::ProductFormats formats(node.attrs);
  if (!formats.w || formats.w->codes != &ir::float4_codes() || formats.w->has_factors ||
      !is_arithmetic_float(formats.w->scale))
    return std::nullopt;
  const std::size_t place = formats.weight_scales();
  if (!values.knows(node.inputs[place])) return std::nullopt;
  const std::vector<Tensor> made =
      ir::apply(kPowersOfTwo, {}, std::span(&values.tensor(node.inputs[place]), 1));
  if (made[0].at_int(0) == 0) return std::nullopt;
  ir::ScaleFormat format = *formats.w;
  format.scale = DType::kUInt8;
  Attrs attrs = node.attrs;
  attrs.set("w", format.to_string());
  Piece piece;
  piece.reads = node.inputs;
  piece.writes = node.outputs;
  piece.emit = [&node, place, attrs = std::move(attrs), scales = made[1]](
                   GraphBuilder& builder, std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(builder, node.origins);
    std::vector<ValueId> inputs(reads.begin(), reads.end());
    inputs[place] = builder.constant(scales);
    return std::vector{builder.add(node.op->name, std::move(inputs), attrs)};
  };
  return piece;
}

std::set<std::size_t> choosing_products(const Graph& graph) {
  std::set<std::size_t> found;
  // selects: integers and flags that say which elements are selected.
  std::vector<bool> decides(graph.values().size()), selects = decides;
  const auto& nodes = graph.nodes();
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    const bool sorts = node.op->name == "ArgSort",
               sorts_floats = sorts && is_float(graph.type(node.inputs[0]).dtype);
    // Choices that are sorted: rows are then split by them (granitemoe).
    const bool is_selecting = node.op->name == "SelectIndices" || (sorts && !sorts_floats) ||
                              std::ranges::any_of(node.outputs, [&](ValueId output) {
                                return selects[output.position()];
                              });
    if (is_selecting && sorts_floats) decides[node.inputs[0].position()] = true;
    for (const ValueId input : node.inputs)
      if (is_selecting && !sorts_floats && !is_float(graph.type(input).dtype))
        selects[input.position()] = true;
    if (node.op->name == "GroupedMatMul") {
      decides[node.inputs.back().position()] = true;
      continue;
    }
    if (std::ranges::none_of(node.outputs,
                             [&](ValueId output) { return decides[output.position()]; }))
      continue;
    if (node.op->name == "MatMul") {
      found.insert(i);
      continue;
    }
    for (const ValueId input : node.inputs) decides[input.position()] = true;
  }
  return found;
}

}  // namespace sinter::fusion
