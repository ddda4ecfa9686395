#include <numeric>

#include "codegen/families/gemm/gemm_graph.h"
#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {
namespace {

using Axes = std::vector<std::int64_t>;

/// `count` axes from `first` on.
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

/// The convolution without bias as products of windows with weights and their sums. Channels lie
/// last in the sums where they do in the operands, so that both are read along memory:
///   [n, out.., g, 1, kernel.., c/g] * [g, m/g, kernel.., c/g]          channels last
///   [n, g, 1, out.., c/g, kernel..] * [g, m/g, 1.., c/g, kernel..]     channels second
ValueId sum_windows(GraphBuilder& builder, const Node& conv, const Shape& result,
                    std::span<const ValueId> operands) {
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
      builder.add("Mul", {x, reshape(builder, operands[1], std::move(weights))});
  const ValueId sum =
      builder.add("ReduceSum", {products},
                  {{"axes", axes_from(sums.size(), spatial + 1)}, {"keepdims", std::int64_t{0}}});
  return reshape(builder, sum, result);
}

}  // namespace

LoopProgramT lower_conv_loops(const Graph& body, bool with_epilogue, Buffers inputs,
                              Buffers outputs, ExprTable& exprs) {
  const GemmBody nodes = gemm_body(body);
  const Graph& part = *nodes.matmul->body;
  const Node& conv = gemm_node(part);
  const Graph all = inline_product(
      body, nodes, with_epilogue, [&](GraphBuilder& builder, std::span<const ValueId> operands) {
        return sum_windows(builder, conv, part.type(conv.outputs[0]).shape, operands);
      });
  return lower_region(all, inputs, outputs, exprs);
}

}  // namespace sinter::codegen
