// SPDX-License-Identifier: Apache-2.0
// Reductions, and global pooling.
#include <numeric>

#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

struct Reduction {
  Ints axes;
  bool keepdims = true;
};

ValueId reduce(NodeContext& node, const char* op, ValueId x, const Reduction& over) {
  if (over.axes.empty()) return x;  // every element is its own sum, product, maximum and minimum
  return node.add(op, {x}, {{"axes", over.axes}, {"keepdims", std::int64_t{over.keepdims}}});
}

/// Axes are an attribute or, from some opset on, an input.
Reduction read_reduction(NodeContext& node, bool axes_input) {
  const std::int64_t rank = node.rank(node.x());
  Reduction over;
  over.keepdims = node.attr_int("keepdims", 1) != 0;
  Ints axes;
  bool keep_all = false;
  if (axes_input) {
    keep_all = node.attr_int("noop_with_empty_axes", 0) != 0;
    if (node.has_input(1)) axes = node.ints(1, "axes");
  } else {
    axes = node.attr_ints("axes").value_or(Ints{});
  }
  if (axes.empty() && !keep_all) {
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  over.axes = node.normalise_axes(std::move(axes), rank);
  return over;
}

using Reducer = ValueId (*)(NodeContext&, ValueId, const Reduction&);

template <Reducer reducer, bool axes_input>
void import_reduction(NodeContext& node) {
  node.output(reducer(node, node.x(), read_reduction(node, axes_input)));
}

ValueId sum(NodeContext& n, ValueId x, const Reduction& r) { return reduce(n, "ReduceSum", x, r); }
ValueId mean(NodeContext& n, ValueId x, const Reduction& r) {
  return reduce(n, "ReduceMean", x, r);
}
ValueId prod(NodeContext& n, ValueId x, const Reduction& r) {
  return reduce(n, "ReduceProd", x, r);
}

/// Reduces booleans as numbers: maximum is "or", minimum is "and".
ValueId extremum(NodeContext& node, const char* op, ValueId x, const Reduction& over) {
  if (node.dtype(x) != DType::kBool) return reduce(node, op, x, over);
  return node.cast(reduce(node, op, node.cast(x, DType::kUInt8), over), DType::kBool);
}
ValueId max(NodeContext& n, ValueId x, const Reduction& r) {
  return extremum(n, "ReduceMax", x, r);
}
ValueId min(NodeContext& n, ValueId x, const Reduction& r) {
  return extremum(n, "ReduceMin", x, r);
}

ValueId sum_square(NodeContext& node, ValueId x, const Reduction& over) {
  return over.axes.empty() ? node.add("Square", {x}) : reduce(node, "ReduceSumSquare", x, over);
}
ValueId l1(NodeContext& node, ValueId x, const Reduction& over) {
  return sum(node, node.add("Abs", {x}), over);
}
/// Computes integers in float64, then truncates, and 16-bit floats in float32: intermediate sums
/// may overflow float16 although the result does not.
template <Reducer reducer>
ValueId in_floats(NodeContext& node, ValueId x, const Reduction& over) {
  const DType type = node.dtype(x);
  const DType wide = is_float(type) ? compute_type(type) : DType::kFloat64;
  return node.cast(reducer(node, node.cast(x, wide), over), type);
}

ValueId l2(NodeContext& node, ValueId x, const Reduction& over) {
  return node.add("Sqrt", {sum_square(node, x, over)});
}
ValueId log_sum(NodeContext& node, ValueId x, const Reduction& over) {
  return node.add("Log", {sum(node, x, over)});
}

/// Subtracts the maximum, so that nothing overflows. An infinite maximum is not subtracted, since
/// infinity minus infinity is NaN.
ValueId log_sum_exp(NodeContext& node, ValueId x, const Reduction& over) {
  const ValueId zero = node.constant(node.dtype(x), 0);
  const Reduction kept{over.axes, true};
  ValueId largest = reduce(node, "ReduceMax", x, kept);
  largest = node.add("Where", {node.add("IsInf", {largest}), zero, largest});
  const ValueId total =
      reduce(node, "ReduceSum", node.add("Exp", {node.add("Sub", {x, largest})}), kept);
  const ValueId result = node.add("Add", {node.add("Log", {total}), largest});
  if (over.keepdims) return result;
  Shape shape;
  for (std::int64_t d = 0, next = 0; d < node.rank(result); ++d) {
    if (next < std::ssize(over.axes) && over.axes[static_cast<std::size_t>(next)] == d)
      ++next;
    else
      shape.push_back(node.shape(result)[static_cast<std::size_t>(d)]);
  }
  return node.reshape(result, shape);
}

template <Reducer reducer>
void global_pool(NodeContext& node) {
  const ValueId x = node.x();
  if (node.rank(x) < 3)
    node.invalid("input must be [batch, channels, spatial dimensions..], but is {}", node.type(x));
  Reduction over;
  for (std::int64_t axis = 2; axis < node.rank(x); ++axis) over.axes.push_back(axis);
  node.output(reducer(node, x, over));
}

}  // namespace

const OpRows kReduceOps = {
    {"ReduceSum", 1, import_reduction<sum, false>, "axes keepdims"},
    {"ReduceSum", 13, import_reduction<sum, true>, "keepdims noop_with_empty_axes"},
    {"ReduceMean", 1, import_reduction<mean, false>, "axes keepdims"},
    {"ReduceMean", 18, import_reduction<mean, true>, "keepdims noop_with_empty_axes"},
    {"ReduceMax", 1, import_reduction<max, false>, "axes keepdims"},
    {"ReduceMax", 18, import_reduction<max, true>, "keepdims noop_with_empty_axes"},
    {"ReduceMin", 1, import_reduction<min, false>, "axes keepdims"},
    {"ReduceMin", 18, import_reduction<min, true>, "keepdims noop_with_empty_axes"},
    {"ReduceProd", 1, import_reduction<prod, false>, "axes keepdims"},
    {"ReduceProd", 18, import_reduction<prod, true>, "keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", 1, import_reduction<sum_square, false>, "axes keepdims"},
    {"ReduceSumSquare", 18, import_reduction<sum_square, true>, "keepdims noop_with_empty_axes"},
    {"ReduceL1", 1, import_reduction<l1, false>, "axes keepdims"},
    {"ReduceL1", 18, import_reduction<l1, true>, "keepdims noop_with_empty_axes"},
    {"ReduceL2", 1, import_reduction<in_floats<l2>, false>, "axes keepdims"},
    {"ReduceL2", 18, import_reduction<in_floats<l2>, true>, "keepdims noop_with_empty_axes"},
    {"ReduceLogSum", 1, import_reduction<in_floats<log_sum>, false>, "axes keepdims"},
    {"ReduceLogSum", 18, import_reduction<in_floats<log_sum>, true>,
     "keepdims noop_with_empty_axes"},
    {"ReduceLogSumExp", 1, import_reduction<in_floats<log_sum_exp>, false>, "axes keepdims"},
    {"ReduceLogSumExp", 18, import_reduction<in_floats<log_sum_exp>, true>,
     "keepdims noop_with_empty_axes"},
    {"GlobalAveragePool", 1, global_pool<mean>, "", "", Types::kFloats},
    {"GlobalMaxPool", 1, global_pool<max>},
};

}  // namespace sinter::frontend
