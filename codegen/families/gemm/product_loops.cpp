// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>

#include "codegen/families/gemm/gemm_graph.h"
#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/loop_lowering.h"
#include "ir/scale_format.h"

namespace sinter::codegen {
namespace {

using Axes = std::vector<std::int64_t>;

/// `count` axes starting at `first`.
Axes axes_from(std::size_t first, std::size_t count) {
  Axes axes(count);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(first));
  return axes;
}

void append(Axes& axes, const Axes& more) { axes.insert(axes.end(), more.begin(), more.end()); }
void append(Shape& shape, std::span<const Dim> more) {
  shape.insert(shape.end(), more.begin(), more.end());
}

ValueId reshape(GraphBuilder& builder, ValueId value, Shape shape) {
  return builder.add("Reshape", {value}, {{"shape", std::move(shape)}});
}
ValueId transpose(GraphBuilder& builder, ValueId value, Axes perm) {
  return builder.add("Transpose", {value}, {{"perm", std::move(perm)}});
}

/// Multiplies in the accumulators' type, which is wider than 8-bit operands.
ValueId multiplied(GraphBuilder& builder, ValueId a, ValueId b, DType type) {
  const auto widened = [&](ValueId value) {
    return builder.type(value).dtype == type ? value : builder.add("Cast", {value}, {{"to", type}});
  };
  return builder.add("Mul", {widened(a), widened(b)});
}

/// a [.., m, k] times b [.., k, n] as [.., m, 1, k] * [.., 1, n, k], summed over k.
ValueId sum_columns(GraphBuilder& builder, const TensorType& type,
                    std::span<const ValueId> operands) {
  const auto with_one = [&](ValueId value, std::ptrdiff_t from_end) {
    Shape shape = builder.type(value).shape;
    shape.insert(shape.end() - from_end, Dim(1));
    return reshape(builder, value, std::move(shape));
  };
  Axes perm = axes_from(0, builder.type(operands[1]).shape.size());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const ValueId b = transpose(builder, operands[1], std::move(perm));
  const ValueId products =
      multiplied(builder, with_one(operands[0], 1), with_one(b, 2), type.dtype);
  return builder.add("ReduceSum", {products},
                     {{"axes", axes_from(type.shape.size(), 1)}, {"keepdims", std::int64_t{0}}});
}

/// The same with block scales along k, of rows and of column groups, both broadcast to the blocks:
/// [.., m, k / block, block] is summed.
ValueId sum_blocks(GraphBuilder& builder, const Node& node, const TensorType& type,
                   std::span<const ValueId> operands) {
  const ir::ScaleFormat format = *ir::ProductFormats(node.attrs).w;
  const Dim block = format.depth, columns = format.rows;
  const Dim n = type.shape.back();
  const Shape weight_scales = builder.type(operands[3]).shape;
  const Dim& blocks = weight_scales[1];
  const auto split = [&](ValueId value, std::initializer_list<Dim> last) {
    Shape shape = builder.type(value).shape;
    shape.pop_back();
    append(shape, Shape(last));
    return reshape(builder, value, std::move(shape));
  };
  const auto widened = [&](ValueId value) {
    return builder.add("Cast", {value}, {{"to", type.dtype}});
  };
  // Expands the scales of column groups to columns; the last group may be smaller.
  ValueId of_weights = reshape(builder, operands[3], {weight_scales[0], 1, blocks});
  of_weights =
      builder.add("Expand", {of_weights}, {{"shape", Shape{weight_scales[0], columns, blocks}}});
  of_weights = reshape(builder, of_weights, {weight_scales[0] * columns, blocks});
  of_weights = builder.add("Slice", {of_weights},
                           {{"starts", std::vector<Dim>(2, Dim(0))},
                            {"steps", Axes(2, 1)},
                            {"shape", Shape{n, blocks}}});
  const ValueId x = builder.add(
      "Mul", {split(widened(operands[0]), {1, blocks, block}), split(operands[2], {1, blocks, 1})});
  const ValueId w = builder.add(
      "Mul", {split(widened(operands[1]), {blocks, block}), split(of_weights, {blocks, 1})});
  return builder.add("ReduceSum", {builder.add("Mul", {x, w})},
                     {{"axes", axes_from(type.shape.size(), 2)}, {"keepdims", std::int64_t{0}}});
}

/// The convolution without bias: windows times weights, summed. The summed channels are innermost
/// if they are in the operands, so that both are read contiguously:
///   [n, out.., g, 1, kernel.., c/g] * [g, m/g, kernel.., c/g]          channels last
///   [n, g, 1, out.., c/g, kernel..] * [g, m/g, 1.., c/g, kernel..]     channels second
ValueId sum_windows(GraphBuilder& builder, const Node& conv, const TensorType& type,
                    std::span<const ValueId> operands) {
  const Shape& result = type.shape;
  const DType sum_type = type.dtype;
  const bool last = conv.attrs.get_int("channels_last") == 1;
  const Dim group = conv.attrs.get_int("group");
  const std::size_t rank = result.size(), spatial = rank - 2;
  ValueId x = operands[0];
  if (last) {
    Axes perm = {0, static_cast<std::int64_t>(rank) - 1};
    append(perm, axes_from(1, spatial));
    x = transpose(builder, x, std::move(perm));
  }
  const Shape w = builder.type(operands[1]).shape;
  const std::span<const Dim> taps = std::span(w).subspan(last ? 1 : 2, spatial);
  const std::span<const Dim> out = std::span(result).subspan(last ? 1 : 2, spatial);
  const Dim channels = last ? w.back() : w[1];
  const Dim outputs = *ir::divide_exactly(w[0], conv.attrs.get_int("group"));
  Axes kernel;
  for (const Dim& size : taps) kernel.push_back(size.value());
  x = builder.add("Unfold", {x},
                  {{"kernel", kernel},
                   {"strides", conv.attrs.get_ints("strides")},
                   {"dilations", conv.attrs.get_ints("dilations")},
                   {"pads_begin", conv.attrs.get_ints("pads_begin")},
                   {"pads_end", conv.attrs.get_ints("pads_end")}});
  Shape parts = {result[0], group, channels};
  append(parts, taps);
  append(parts, out);
  x = reshape(builder, x, std::move(parts));

  Shape windows = {result[0]}, weights = {group, outputs}, sums = {result[0]};
  Axes perm = {0};
  if (last) {
    append(perm, axes_from(3 + spatial, spatial));
    perm.push_back(1);
    append(perm, axes_from(3, spatial));
    perm.push_back(2);
    append(windows, out);
    append(windows, Shape{group, 1});
    append(windows, taps);
    windows.push_back(channels);
    append(weights, taps);
    weights.push_back(channels);
    append(sums, out);
    append(sums, Shape{group, outputs});
  } else {
    perm.push_back(1);
    append(perm, axes_from(3 + spatial, spatial));
    perm.push_back(2);
    append(perm, axes_from(3, spatial));
    append(windows, Shape{group, 1});
    append(windows, out);
    windows.push_back(channels);
    append(windows, taps);
    append(weights, Shape(spatial, Dim(1)));
    weights.push_back(channels);
    append(weights, taps);
    append(sums, Shape{group, outputs});
    append(sums, out);
  }
  x = reshape(builder, transpose(builder, x, std::move(perm)), std::move(windows));
  const ValueId products =
      multiplied(builder, x, reshape(builder, operands[1], std::move(weights)), sum_type);
  const ValueId sum =
      builder.add("ReduceSum", {products},
                  {{"axes", axes_from(sums.size(), spatial + 1)}, {"keepdims", std::int64_t{0}}});
  return reshape(builder, sum, result);
}

}  // namespace

LoopProgramT lower_product_loops(const Graph& body, bool with_epilogue, Buffers inputs,
                                 Buffers outputs, ExprTable& exprs) {
  const GemmBody nodes = gemm_body(body);
  const Graph& part = *nodes.matmul->body;
  const Node& product = gemm_node(part);
  const TensorType& type = part.type(product.outputs[0]);
  const Graph all = inline_product(
      body, nodes, with_epilogue, [&](GraphBuilder& builder, std::span<const ValueId> operands) {
        if (ir::has_scaled_operands(product)) return sum_blocks(builder, product, type, operands);
        return nodes.is_conv ? sum_windows(builder, product, type, operands)
                             : sum_columns(builder, type, operands);
      });
  return lower_region(all, inputs, outputs, exprs);
}

}  // namespace sinter::codegen
