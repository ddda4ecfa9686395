// SPDX-License-Identifier: Apache-2.0
#include "fusion/packing/token_axes.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Stride of dimension `d`, in elements.
Dim stride_of(const Shape& shape, std::size_t d) {
  Dim stride = 1;
  for (std::size_t i = d + 1; i < shape.size(); ++i) stride *= shape[i];
  return stride;
}

/// A reshape keeps the order of elements, and thus the strides of batch and sequence.
std::optional<TokenAxes> before_reshape(const Shape& in, const Shape& out, const TokenAxes& axes,
                                        const TokenDims& dims) {
  const Dim sequence = stride_of(out, dimension(axes.sequence));
  const Dim batch = axes.is_flat() ? dims.sequence * sequence
                                   : axes.merged * stride_of(out, dimension(axes.batch));
  std::optional<TokenAxes> found;
  for (std::size_t j = 0; j < in.size(); ++j) {
    if (stride_of(in, j) != sequence) continue;
    const int own = static_cast<int>(j);
    if (in[j] == dims.batch * dims.sequence && batch == dims.sequence * sequence && !found)
      found = TokenAxes{own, own};
    if (in[j] != dims.sequence) continue;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto merged = ir::divide_exactly(in[i], dims.batch);
      if (i == j || !merged || *merged * stride_of(in, i) != batch) continue;
      if (!found || found->is_flat() || *merged == Dim(1))
        found = TokenAxes{static_cast<int>(i), own, *merged};
    }
  }
  return found;
}

/// Maps a dimension of a reduction's result to that of its operand.
int before_reduction(const Node& node, std::size_t rank, int axis) {
  if (node.attrs.get_int("keepdims") == 1) return axis;
  const Ints& reduced = node.attrs.get_ints("axes");
  int kept = -1;
  for (std::size_t d = 0; d < rank; ++d)
    if (std::ranges::find(reduced, static_cast<std::int64_t>(d)) == reduced.end() && ++kept == axis)
      return static_cast<int>(d);
  return -1;
}

bool is_reduction(const Node& node) {
  return node.op->kind == OpKind::kReduce || node.op->name == "Variance";
}
bool is_norm(const Node& node) {
  return node.op->name == "LayerNorm" || node.op->name == "RmsNorm";
}

std::optional<OperandAxes> of_gather(const Graph& graph, const Node& node, const TokenAxes& axes) {
  const int axis = static_cast<int>(node.attrs.get_int("axis"));
  const int count = static_cast<int>(graph.type(node.inputs[1]).shape.size());
  const auto of_indices = [&](int d) { return d >= axis && d < axis + count; };
  if (of_indices(axes.batch) != of_indices(axes.sequence)) return std::nullopt;
  if (of_indices(axes.batch))
    return OperandAxes{std::nullopt,
                       TokenAxes{axes.batch - axis, axes.sequence - axis, axes.merged}};
  const auto of_data = [&](int d) { return d < axis ? d : d - count + 1; };
  return OperandAxes{TokenAxes{of_data(axes.batch), of_data(axes.sequence), axes.merged},
                     std::nullopt};
}

std::optional<OperandAxes> of_reduction(const Graph& graph, const Node& node,
                                        const TokenAxes& axes) {
  const std::size_t rank = graph.type(node.inputs[0]).shape.size();
  const TokenAxes before{before_reduction(node, rank, axes.batch),
                         before_reduction(node, rank, axes.sequence), axes.merged};
  for (const std::int64_t reduced : node.attrs.get_ints("axes"))
    if (reduced == before.batch || reduced == before.sequence) return std::nullopt;
  return OperandAxes{before};
}

/// Whether a slice covers all of dimension `d`.
bool takes_all(const Graph& graph, const Node& slice, int d) {
  return slice.attrs.get_dims("starts")[dimension(d)] == Dim(0) &&
         slice.attrs.get_ints("steps")[dimension(d)] == 1 &&
         slice.attrs.get_dims("shape")[dimension(d)] ==
             graph.type(slice.inputs[0]).shape[dimension(d)];
}

std::optional<OperandAxes> of_view(const Graph& graph, const Node& node, const TokenAxes& axes,
                                   const TokenDims& dims) {
  const Shape &in = graph.type(node.inputs[0]).shape, &out = graph.type(node.outputs[0]).shape;
  const std::string& op = node.op->name;
  if (op == "Transpose") {
    const Ints& perm = node.attrs.get_ints("perm");
    return OperandAxes{TokenAxes{static_cast<int>(perm[dimension(axes.batch)]),
                                 static_cast<int>(perm[dimension(axes.sequence)]), axes.merged}};
  }
  if (op == "Reshape") {
    const auto before = before_reshape(in, out, axes, dims);
    return before ? std::optional(OperandAxes{before}) : std::nullopt;
  }
  if (op == "Expand") return OperandAxes{aligned(axes, out.size(), in.size())};
  if (op == "Slice") {
    if (!takes_all(graph, node, axes.batch) || !takes_all(graph, node, axes.sequence))
      return std::nullopt;
    return OperandAxes{axes};
  }
  if (op == "Concat") {
    const auto axis = node.attrs.get_int("axis");
    if (axis == axes.batch || axis == axes.sequence) return std::nullopt;
    return OperandAxes(node.inputs.size(), axes);
  }
  return std::nullopt;
}

}  // namespace

Shape packed_shape(const Shape& shape, const TokenAxes& axes, const TokenDims& dims) {
  Shape result;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d == axes.sequence)
      result.push_back(shape[dimension(d)] == Dim(1) ? Dim(1) : dims.tokens);
    else if (d != axes.batch)
      result.push_back(shape[dimension(d)]);
    else if (axes.merged != Dim(1))
      result.push_back(shape[dimension(d)] == Dim(1) ? Dim(1) : axes.merged);
  }
  return result;
}

std::int64_t packed_axis(const TokenAxes& axes, std::int64_t d) {
  const bool goes = !axes.is_flat() && axes.merged == Dim(1) && axes.batch >= 0;
  return goes && axes.batch < d ? d - 1 : d;
}

TokenAxes aligned(const TokenAxes& axes, std::size_t rank, std::size_t operand_rank) {
  const int shift = static_cast<int>(rank) - static_cast<int>(operand_rank);
  return {std::max(axes.batch - shift, -1), std::max(axes.sequence - shift, -1), axes.merged};
}

std::optional<OperandAxes> operand_axes(const Graph& graph, const Node& node, const TokenAxes& axes,
                                        const TokenDims& dims) {
  if (node.outputs.size() != 1) return std::nullopt;
  const std::size_t rank = graph.type(node.outputs[0]).shape.size();
  const auto align = [&](std::size_t first) {
    OperandAxes result(node.inputs.size());
    for (std::size_t i = first; i < node.inputs.size(); ++i)
      result[i] = aligned(axes, rank, graph.type(node.inputs[i]).shape.size());
    return result;
  };
  const std::string& op = node.op->name;
  if (node.op->kind == OpKind::kPointwise) return align(0);
  if (node.op->kind == OpKind::kView) return of_view(graph, node, axes, dims);
  if (op == "Take") return align(1);
  if (op == "Gather") return of_gather(graph, node, axes);
  if (is_reduction(node)) return of_reduction(graph, node, axes);
  if (op == "Softmax") {
    const auto axis = node.attrs.get_int("axis");
    if (axis == axes.batch || axis == axes.sequence) return std::nullopt;
    return OperandAxes{axes};
  }
  if (is_norm(node)) {
    const auto axis = node.attrs.get_int("axis");
    if (axis <= axes.batch || axis <= axes.sequence) return std::nullopt;
    return align(0);
  }
  if (op == "MatMul") {
    const int columns = static_cast<int>(rank) - 1;
    if (axes.batch == columns || axes.sequence == columns ||
        graph.type(node.inputs[0]).shape.size() != rank ||
        graph.type(node.inputs[1]).shape.size() != 2)
      return std::nullopt;
    OperandAxes result(node.inputs.size());
    result[0] = axes;
    if (ir::has_scaled_operands(node)) result[2] = axes;  // scales of rows
    return result;
  }
  return std::nullopt;
}

std::optional<TokenAxes> result_axes(const Graph& graph, const Node& node, std::size_t operand,
                                     const TokenAxes& axes, const TokenDims& dims) {
  if (node.outputs.size() != 1) return std::nullopt;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const int rank = static_cast<int>(shape.size());
  const auto fits = [&](const TokenAxes& candidate) {
    const auto operands = operand_axes(graph, node, candidate, dims);
    return operands && (*operands)[operand] == axes;
  };
  for (const bool whole : {true, false})  // first with a separate dimension for the batch, if any
    for (int i = 0; i < rank; ++i)
      for (int j = 0; j < rank; ++j) {
        if (i == j) {
          if (whole && shape[dimension(j)] == dims.batch * dims.sequence && fits({j, j}))
            return TokenAxes{j, j};
          continue;
        }
        if (shape[dimension(j)] != dims.sequence) continue;
        const auto merged = ir::divide_exactly(shape[dimension(i)], dims.batch);
        if (!merged || (*merged == Dim(1)) != whole) continue;
        if (const TokenAxes candidate{i, j, *merged}; fits(candidate)) return candidate;
      }
  return std::nullopt;
}

ValueId add_packed(GraphBuilder& builder, const Graph& graph, const Node& node,
                   const TokenAxes& axes, std::span<const ValueId> operands,
                   const TokenDims& dims) {
  GraphBuilder::OriginScope scope(builder, node.origins);
  const std::string& op = node.op->name;
  const Shape& out = graph.type(node.outputs[0]).shape;
  const auto before = operand_axes(graph, node, axes, dims);
  const bool goes = !axes.is_flat() && axes.merged == Dim(1);  // the batch's dimension
  Attrs attrs = node.attrs;
  if (op == "Reshape" || op == "Expand") {
    const Shape shape = packed_shape(out, axes, dims);
    if (builder.type(operands[0]).shape == shape) return operands[0];
    attrs.set("shape", shape);
  } else if (op == "Transpose") {
    Ints perm;
    for (int d = 0; d < static_cast<int>(out.size()); ++d)
      if (!goes || d != axes.batch)
        perm.push_back(packed_axis(*(*before)[0], node.attrs.get_ints("perm")[dimension(d)]));
    attrs.set("perm", perm);
  } else if (op == "Slice") {
    std::vector<Dim> starts = attrs.get_dims("starts");
    Ints steps = attrs.get_ints("steps");
    if (goes) {
      starts.erase(starts.begin() + axes.batch);
      steps.erase(steps.begin() + axes.batch);
    }
    attrs.set("starts", starts);
    attrs.set("steps", steps);
    attrs.set("shape", packed_shape(out, axes, dims));
  } else if (op == "Concat" || op == "Softmax" || is_norm(node)) {
    attrs.set("axis", packed_axis(axes, attrs.get_int("axis")));
  } else if (op == "Gather" && (*before)[0]) {
    attrs.set("axis", packed_axis(*(*before)[0], attrs.get_int("axis")));
  } else if (is_reduction(node)) {
    Ints reduced = attrs.get_ints("axes");
    for (std::int64_t& axis : reduced) axis = packed_axis(*(*before)[0], axis);
    attrs.set("axes", reduced);
  }
  return builder.add(op, {operands.begin(), operands.end()}, attrs);
}

}  // namespace sinter::fusion
