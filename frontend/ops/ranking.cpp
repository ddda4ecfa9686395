// Which element is the largest, and running sums: reductions over pairs of elements.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "frontend/ops/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t read_axis(NodeContext& node, const Term& x, std::int64_t fallback) {
  return static_cast<std::size_t>(
      node.normalise_axis(node.attr_int("axis", fallback), node.rank(x.value())));
}

/// The index of the largest (smallest) element along `axis`, which stays with one element: the
/// first such, or the last. NaN counts as more extreme than any number, as in numpy.
Term extreme_index(NodeContext& node, const Term& x, std::size_t axis, bool largest, bool last) {
  const Shape shape = x.shape();
  const Term value = x.dtype() == DType::kBool ? x.cast(DType::kUInt8) : x;
  const Term extreme = reduce(largest ? "ReduceMax" : "ReduceMin", value, axis, true);
  Term hit = value.with("Equal", extreme);
  if (is_float(value.dtype())) hit = hit.with("Or", value.apply("IsNan"));
  const Term index = iota(node, shape[axis], axis, shape.size());
  const Term none = last ? index.number(-1) : size_of_dim(node, shape[axis]);
  return reduce(last ? "ReduceMax" : "ReduceMin", select(hit, index, none), axis, true);
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

/// One at the first largest element, zero elsewhere.
void hardmax(NodeContext& node) {
  Term x(node, node.x());
  const Shape whole = x.shape();
  std::size_t axis = read_axis(node, x, node.opset() >= 13 ? -1 : 1);
  if (node.opset() < 13) {  // all dimensions from the axis on are one
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

/// `x` with a dimension of one put in front of dimension `axis`.
Term spread(const Term& x, std::size_t axis) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
  return x.reshape(shape);
}

/// The k largest (smallest) elements in order; of equal ones the first comes first. An element's
/// rank is how many come before it, so that the work grows with the square of the dimension.
void top_k(NodeContext& node) {
  const Term x(node, node.x());
  const std::size_t axis = read_axis(node, x, -1);
  const bool largest = node.opset() < 11 || node.attr_int("largest", 1) != 0;
  node.ignore_attr("sorted");  // in order is one of the orders that "not sorted" allows
  const Dim k = node.opset() < 10 ? Dim(node.attr_int("k")) : node.size(1, "K");
  const Shape shape = x.shape();
  const Dim n = shape[axis];
  const auto least = ir::lower_bound(n - k, node.builder().ranges());
  const auto most = ir::upper_bound(n - k, node.builder().ranges());
  if ((k.is_constant() && k.value() < 0) || (most && *most < 0))
    node.invalid(fmt::format("k is {}, but dimension {} of {} has {} elements", k.to_string(), axis,
                             ir::to_string(shape), n.to_string()));
  if (!least || *least < 0)
    node.unsupported(
        fmt::format("k is {}, and dimension {} may be smaller: give it a range of at "
                    "least that",
                    k.to_string(), n.to_string()));
  std::optional<Term> chosen;
  if (k == Dim(1)) {
    chosen = extreme_index(node, x, axis, largest, false);
  } else {
    Term key = x;
    if (is_float(x.dtype()))  // NaN is larger than all numbers
      key = select(x.apply("IsNan"), x.number(kInfinity), x);
    else if (x.dtype() == DType::kBool)
      key = x.cast(DType::kUInt8);
    const std::size_t rank = shape.size() + 1;
    // Element i of the axis, which is now dimension `axis`, against each element j behind it.
    const Term mine = spread(key, axis + 1), other = spread(key, axis);
    const Term i = iota(node, n, axis, rank), j = iota(node, n, axis + 1, rank);
    const Term ahead = other.with(largest ? "Greater" : "Less", mine);
    const Term tied = other.with("Equal", mine).with("And", j.with("Less", i));
    const Term place =
        reduce("ReduceSum", ahead.with("Or", tied).cast(DType::kInt32), axis + 1);  // of i
    const Term wanted = iota(node, k, axis, rank, DType::kInt32);
    const Term found = spread(place, axis).with("Equal", wanted);
    chosen = reduce("ReduceMax", select(found, j, j.number(-1)), axis + 1);
  }
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

/// Each element is the sum (product) of those before it and itself. A masked reduction over pairs:
/// the work grows with the square of the dimension.
void cumulative(NodeContext& node, std::string_view op, double identity) {
  const Term x(node, node.x());
  const std::vector<std::int64_t> given = node.ints(1, "axis");
  if (given.size() != 1) node.invalid("axis must be one number");
  const auto axis = static_cast<std::size_t>(node.normalise_axis(given[0], node.rank(x.value())));
  const bool exclusive = node.attr_int("exclusive", 0) != 0;
  const bool reverse = node.attr_int("reverse", 0) != 0;
  const Shape shape = x.shape();
  const std::size_t rank = shape.size() + 1;
  const Term i = iota(node, shape[axis], axis, rank), j = iota(node, shape[axis], axis + 1, rank);
  const char* compare =
      reverse ? (exclusive ? "Greater" : "GreaterOrEqual") : (exclusive ? "Less" : "LessOrEqual");
  node.output(reduce(op, select(j.with(compare, i), spread(x, axis), x.number(identity)), axis + 1)
                  .value());
}

void cum_sum(NodeContext& node) { cumulative(node, "ReduceSum", 0); }
void cum_prod(NodeContext& node) { cumulative(node, "ReduceProd", 1); }

constexpr OpRow kRows[] = {
    {"ArgMax", 1, arg_max}, {"ArgMin", 1, arg_min},  {"Hardmax", 1, hardmax},
    {"TopK", 1, top_k},     {"CumSum", 11, cum_sum}, {"CumProd", 26, cum_prod},
};

}  // namespace

std::span<const OpRow> ranking_ops() { return kRows; }

}  // namespace sinter::frontend
