// SPDX-License-Identifier: Apache-2.0
// Argmax, top-k and related operators, and prefix sums.
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

std::size_t read_axis(NodeContext& node, const Term& x, std::int64_t fallback) {
  return static_cast<std::size_t>(
      node.normalise_axis(node.attr_int("axis", fallback), node.rank(x.value())));
}

/// The index of the largest (smallest) element along `axis`, which stays with one element: the
/// first such, or the last. NaN counts as more extreme than any number, as in numpy.
Term extreme_index(NodeContext& node, const Term& x, std::size_t axis, bool largest, bool last) {
  const Shape shape = x.shape();
  const DType number = index_type(node, shape[axis]);
  const Term value = x.dtype() == DType::kBool ? x.cast(DType::kUInt8) : x;
  const Term extreme = reduce(largest ? "ReduceMax" : "ReduceMin", value, axis, true);
  Term hit = value.with("Equal", extreme);
  if (is_float(value.dtype())) hit = hit.with("Or", value.apply("IsNan"));
  const Term index = iota(node, shape[axis], axis, shape.size(), number);
  const Term none = last ? index.number(-1) : size_of_dim(node, shape[axis], number);
  return reduce(last ? "ReduceMax" : "ReduceMin", select(hit, index, none), axis, true)
      .cast(DType::kInt64);
}

void arg_extreme(NodeContext& node, bool largest) {
  const Term x(node, node.input(0, "data"));
  const std::size_t axis = read_axis(node, x, 0);
  const bool last = node.opset() >= 12 && node.attr_int("select_last_index", 0) != 0;
  const bool keepdims = node.attr_int("keepdims", 1) != 0;
  if (x.shape()[axis] == Dim(0)) node.invalid("there is no element to choose along the axis");
  Shape shape = x.shape();
  shape[axis] = 1;
  if (!keepdims) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  node.output(extreme_index(node, x, axis, largest, last).reshape(shape).value());
}

void arg_max(NodeContext& node) { arg_extreme(node, true); }
void arg_min(NodeContext& node) { arg_extreme(node, false); }

/// 1 at the first largest element, 0 elsewhere.
void hardmax(NodeContext& node) {
  Term x(node, node.x());
  const Shape whole = x.shape();
  std::size_t axis = read_axis(node, x, node.opset() >= 13 ? -1 : 1);
  if (node.opset() < 13) {  // before 13, all dimensions from the axis on are flattened
    Dim rows = 1, columns = 1;
    for (std::size_t d = 0; d < whole.size(); ++d)
      (d < axis ? rows : columns) = (d < axis ? rows : columns) * whole[d];
    x = x.reshape({rows, columns});
    axis = 1;
  }
  const Shape shape = x.shape();
  const Term index = iota(node, shape[axis], axis, shape.size());
  const Term chosen = extreme_index(node, x, axis, true, false);
  node.output(index.with("Equal", chosen).cast(x.dtype()).reshape(whole).value());
}

/// The index of the smallest element along `axis`, the first of equal ones; NaN counts as larger
/// than all numbers.
Term least_index(NodeContext& node, const Term& x, std::size_t axis) {
  if (!is_float(x.dtype())) return extreme_index(node, x, axis, false, false);
  const Term number = select(x.apply("IsNan"), x.number(kInfinity), x);
  const Term hit = x.with("Equal", reduce("ReduceMin", number, axis, true));
  const Shape shape = x.shape();
  const DType type = index_type(node, shape[axis]);
  const Term index = iota(node, shape[axis], axis, shape.size(), type);
  const Term none = size_of_dim(node, shape[axis], type);
  const Term first = reduce("ReduceMin", select(hit, index, none), axis, true);
  return select(first.with("Equal", none), first.number(0), first)  // all are NaN
      .cast(DType::kInt64);
}

/// The k largest (smallest) elements in order; equal ones in index order.
void top_k(NodeContext& node) {
  const Term x(node, node.x());
  const std::size_t axis = read_axis(node, x, -1);
  const bool largest = node.opset() < 11 || node.attr_int("largest", 1) != 0;
  // ignores 'sorted': a sorted result is valid for "not sorted"
  const Shape shape = x.shape();
  const Dim n = shape[axis];
  const Dim k = node.opset() < 10 ? Dim(node.attr_int("k")) : node.size_up_to(1, n, "K");
  const bool is_bounded = ir::is_from_data({&k, 1}, node.builder().ranges());
  const auto least = ir::lower_bound(n - k, node.builder().ranges());
  const auto most = ir::upper_bound(n - k, node.builder().ranges());
  if ((k.is_constant() && k.value() < 0) || (most && *most < 0))
    node.invalid("k is {}, but dimension {} of {} has {} elements", k, axis, shape, n);
  if (ir::is_from_data({&n, 1}, node.builder().ranges()) &&
      !ir::proves_le(k, n, node.builder().ranges()))
    node.unsupported("k is {}, and the run may find fewer elements: ask for the smaller of both",
                     k);
  if (!is_bounded && (!least || *least < 0))
    node.unsupported("k is {}, and dimension {} may be smaller: give it a range of at least that",
                     k, n);
  const Term key = x.dtype() == DType::kBool ? x.cast(DType::kUInt8) : x;
  std::optional<Term> chosen;
  if (k == Dim(1))  // a reduction, which can fuse
    chosen = largest ? extreme_index(node, key, axis, true, false) : least_index(node, key, axis);
  else
    chosen = Term(node, node.add("ArgSort", {key.value()},
                                 {{"axis", static_cast<std::int64_t>(axis)},
                                  {"count", std::vector<Dim>{k}},
                                  {"descending", std::int64_t{largest}}}));
  Shape result = shape;
  result[axis] = k;
  if (node.output_is_used(0)) {
    std::vector<Term> places;
    for (std::size_t d = 0; d < shape.size(); ++d)
      places.push_back(d == axis ? *chosen : iota(node, result[d], d, shape.size()));
    node.output(0, take(x, places).value());
  }
  node.output(1, chosen->value());
}

/// Inclusive prefix sums (products).
void cumulative(NodeContext& node, const char* combine) {
  const Term x(node, node.x());
  const Ints given = node.ints(1, "axis");
  if (given.size() != 1) node.invalid("axis must be one number");
  const std::int64_t axis = node.normalise_axis(given[0], node.rank(x.value()));
  node.output(node.add("Scan", {x.value()},
                       {{"axis", axis},
                        {"combine", std::string(combine)},
                        {"exclusive", std::int64_t{node.attr_int("exclusive", 0) != 0}},
                        {"reverse", std::int64_t{node.attr_int("reverse", 0) != 0}}}));
}

void cum_sum(NodeContext& node) { cumulative(node, "sum"); }
void cum_prod(NodeContext& node) { cumulative(node, "prod"); }

}  // namespace

const OpRows kRankingOps = {
    {"ArgMax", 1, arg_max, "axis keepdims select_last_index:12-"},
    {"ArgMin", 1, arg_min, "axis keepdims select_last_index:12-"},
    {"Hardmax", 1, hardmax, "axis"},
    {"TopK", 1, top_k, "axis k:-9 largest:11- sorted:11-"},
    {"CumSum", 11, cum_sum, "exclusive reverse"},
    {"CumProd", 26, cum_prod, "exclusive reverse"},
};

}  // namespace sinter::frontend
