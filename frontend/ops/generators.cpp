// SPDX-License-Identifier: Apache-2.0
// Operators that generate tensors from sizes and constants.
#include <cmath>
#include <span>

#include "frontend/model/initializers.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/scalar_math.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

void constant(NodeContext& node) {
  if (auto four_bits = node.attr_four_bit_tensor("value")) {
    node.give_four_bits();
    node.output(node.builder().constant(std::move(*four_bits)));
  } else if (auto texts = node.attr_text_tensor("value")) {
    node.output(node.builder().constant(std::move(*texts)));
    node.give_text(0, node.model_texts().all());
  } else if (auto tensor = node.attr_tensor("value")) {
    node.output(node.builder().constant(std::move(*tensor)));
  } else if (node.has_attr("value_float")) {
    node.output(node.constant(DType::kFloat32, node.attr_float("value_float")));
  } else if (node.has_attr("value_int")) {
    const std::int64_t value = node.attr_value("value_int");
    node.output(node.builder().constant(Tensor::from_ints(DType::kInt64, {}, {&value, 1})));
  } else if (const auto floats = node.attr_floats("value_floats")) {
    const auto count = static_cast<std::int64_t>(floats->size());
    node.output(node.builder().constant(Tensor::from_doubles(DType::kFloat32, {count}, *floats)));
  } else if (const auto ints = node.attr_ints("value_ints")) {
    const auto count = static_cast<std::int64_t>(ints->size());
    node.output(node.builder().constant(Tensor::from_ints(DType::kInt64, {count}, *ints)));
  } else if (auto sparse = node.attr_sparse_tensor("sparse_value")) {
    node.output(node.builder().constant(std::move(*sparse)));
  } else if (node.has_attr("value_string") || node.has_attr("value_strings")) {
    Ints codes, shape;
    if (const auto texts = node.attr_strings("value_strings")) {
      for (const std::string& text : *texts) codes.push_back(node.model_texts().code(text));
      shape.push_back(std::ssize(codes));
    } else {
      codes.push_back(node.model_texts().code(node.attr_string("value_string")));
    }
    node.output(node.builder().constant(Tensor::from_ints(DType::kInt64, shape, codes)));
    node.give_text(0, node.model_texts().all());
  } else {
    node.invalid("it has no value");
  }
}

void constant_of_shape(NodeContext& node) {
  const auto shape = node.sizes(0, "shape");
  for (const Dim& dim : shape)
    if (dim.is_constant() && dim.value() < 0)
      node.invalid("shape {} has a negative dimension", shape);
  auto value = node.attr_tensor("value");
  if (value && value->element_count() != 1)
    node.invalid("its value must have one element, but is {}", value->type());
  const Tensor scalar = value ? value->reshaped({}) : Tensor::scalar(DType::kFloat32, 0);
  node.output(node.expand(node.builder().constant(scalar), shape));
}

/// A range between constants of any type. By the specification the number of elements is
/// max(ceil((limit - start) / delta), 0).
void constant_range(NodeContext& node, const Tensor& start, const Tensor& limit,
                    const Tensor& delta) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 22;
  const DType dtype = start.dtype();
  const auto too_long = [&] { node.unsupported("a range of more than {} elements", kMaxElements); };
  if (delta.at(0) == 0) node.invalid("delta is 0");
  const double exact = std::ceil((limit.at(0) - start.at(0)) / delta.at(0));
  if (!(exact <= static_cast<double>(kMaxElements))) too_long();
  const auto count = static_cast<std::int64_t>(std::max(exact, 0.0));
  if (is_float(dtype)) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = start.at(0) + static_cast<double>(i) * delta.at(0);
    node.output(node.builder().constant(Tensor::from_doubles(dtype, {count}, values)));
  } else {
    Ints values(static_cast<std::size_t>(count));
    auto next = static_cast<std::uint64_t>(start.at_int(0));  // wraps around, as the type does
    for (std::int64_t& value : values) {
      value = static_cast<std::int64_t>(next);
      next += static_cast<std::uint64_t>(delta.at_int(0));
    }
    node.output(node.builder().constant(Tensor::from_ints(dtype, {count}, values)));
  }
}

/// Strips reshapes of a single element from `value`.
ValueId element_of(NodeContext& node, ValueId value) {
  const ir::Node* view = node.builder().producer(value);
  while (view != nullptr && view->op->kind == ir::OpKind::kView && view->inputs.size() == 1 &&
         ir::element_count(node.shape(view->inputs[0])) == Dim(1)) {
    value = view->inputs[0];
    view = node.builder().producer(value);
  }
  return value;
}

/// `limit` - `start` if `limit` is computed as start + n, for any start: the positions of new rows
/// in a cache.
std::optional<Dim> known_distance(NodeContext& node, ValueId start, ValueId limit) {
  const ValueId first = element_of(node, start);
  const ir::Node* sum = node.builder().producer(element_of(node, limit));
  if (sum == nullptr || sum->op->name != "Add") return std::nullopt;
  const std::vector<ValueId> terms = sum->inputs;
  for (const std::size_t i : {0, 1})
    if (element_of(node, terms[i]) == first)
      if (const auto n = node.folder().contents(terms[1 - i])) return n->at(0);
  return std::nullopt;
}

/// The size in a float bound: torch.arange(h, dtype=float) casts it before the Range. Above 2^24
/// float32 would round it; the exact size is meant.
std::optional<Dim> size_in_float(NodeContext& node, ValueId value) {
  const ir::Node* cast = node.builder().producer(element_of(node, value));
  if (cast == nullptr || cast->op->name != "Cast" || !is_integer(node.dtype(cast->inputs[0])))
    return std::nullopt;
  const auto held = node.folder().contents(cast->inputs[0]);
  return held ? std::optional<Dim>(held->at(0)) : std::nullopt;
}

/// An integer that gives the same number of elements as a float bound: a constant is rounded away
/// from the other bound.
std::optional<Dim> whole_bound(NodeContext& node, ValueId value, bool upwards) {
  if (const auto known = node.folder().constant(value)) {
    const double number = known->at(0);
    if (!(std::fabs(number) < 0x1p52)) return std::nullopt;
    return Dim(static_cast<std::int64_t>(upwards ? std::ceil(number) : std::floor(number)));
  }
  return size_in_float(node, value);
}

/// A float range between constants and sizes, with an integer delta: start + delta * i.
bool symbolic_float_range(NodeContext& node, std::span<const ValueId> inputs) {
  const DType dtype = node.dtype(inputs[0]);
  const auto delta = node.folder().constant(inputs[2]);
  if (!delta || (dtype != DType::kFloat32 && dtype != DType::kFloat64)) return false;
  const double step = delta->at(0);
  if (step != std::trunc(step) || step == 0 || !(std::fabs(step) < 0x1p31)) return false;
  const auto start = whole_bound(node, inputs[0], step < 0);
  const auto limit = whole_bound(node, inputs[1], step > 0);
  if (!start || !limit) return false;
  const auto whole_step = static_cast<std::int64_t>(std::fabs(step));
  const auto& ranges = node.builder().ranges();
  const Dim span = step > 0 ? *limit - *start : *start - *limit;
  const Dim count = ir::max(ir::ceil_div(span, whole_step, ranges), 0, ranges);
  ValueId result = node.folder().iota(count, dtype);
  if (step != 1) result = node.add("Mul", {result, node.constant(dtype, step)});
  const auto first = node.folder().constant(inputs[0]);
  if (!first || first->at(0) != 0) result = node.add("Add", {result, node.reshape(inputs[0], {})});
  node.output(result);
  return true;
}

/// A range with data-dependent bounds and a constant delta.
void range_by_data(NodeContext& node, std::span<const ValueId> inputs) {
  const auto known = node.folder().constant(inputs[2]);
  if (!known) node.scalar(2, "delta");
  const double delta = known->at(0), by = std::fabs(delta);
  if (delta == 0) node.invalid("delta is 0");
  const Term start = Term(node, inputs[0]).reshape({}), limit = Term(node, inputs[1]).reshape({});
  const Term span = delta > 0 ? limit - start : start - limit;
  const Term steps =
      is_float(start.dtype()) ? ceil(span / by) : (span.with("Max", 0.0) + (by - 1)) / by;
  const Dim count = node.size_from_data(steps.with("Max", 0.0).cast(DType::kInt64).value(), {});
  node.output((iota(node, count, 0, 1, start.dtype()) * delta + start).value());
}

void range(NodeContext& node) {
  // Only com.microsoft's may leave out delta.
  const DType dtype = node.dtype(node.input(0, "start"));
  const ValueId inputs[] = {node.input(0, "start"), node.input(1, "limit"),
                            node.has_input(2) || node.input_count() > 2 ? node.input(2, "delta")
                                                                        : node.constant(dtype, 1)};
  for (const ValueId input : inputs)
    if (node.dtype(input) != dtype || ir::element_count(node.shape(input)) != Dim(1))
      node.invalid("start, limit and delta must be scalars of one type, but one is {}",
                   node.type(input));
  const auto start = node.folder().constant(inputs[0]);
  const auto limit = node.folder().constant(inputs[1]);
  const auto delta = node.folder().constant(inputs[2]);
  if (start && limit && delta) return constant_range(node, *start, *limit, *delta);
  if (!is_integer(dtype)) {
    if (symbolic_float_range(node, inputs)) return;
    return range_by_data(node, inputs);
  }
  const bool is_anywhere = !node.folder().contents(inputs[0]);
  const auto distance =
      is_anywhere ? known_distance(node, inputs[0], inputs[1]) : std::optional<Dim>();
  const bool follows = node.folder().needed_contents(inputs[0]).has_value() &&
                       node.folder().needed_contents(inputs[1]).has_value();
  if (!distance && !follows) return range_by_data(node, inputs);
  const Dim first = distance ? Dim(0) : node.size(0, "start"),
            last = distance ? *distance : node.size(1, "limit");
  const Ints step = node.ints(2, "delta");
  if (step[0] == 0) node.invalid("delta is 0");
  if (step[0] == INT64_MIN) node.unsupported("a delta of {}", step[0]);  // its negation overflows
  const auto& ranges = node.builder().ranges();
  const Dim span = step[0] > 0 ? last - first : first - last;
  const Dim count =
      ir::max(ir::ceil_div(span, step[0] > 0 ? step[0] : -step[0], ranges), 0, ranges);
  ValueId result = node.folder().iota(count, dtype);
  if (step[0] != 1)
    result = node.add("Mul", {result, node.cast(node.folder().scalar_of(step[0]), dtype)});
  if (distance)
    result = node.add("Add", {result, node.reshape(inputs[0], {})});
  else if (first != Dim(0))
    result = node.add("Add", {result, node.cast(node.folder().scalar_of(first), dtype)});
  node.output(result);
}

/// Keeps the lower (upper) triangle: row + k >= column (<=), on the last two dimensions.
void trilu(NodeContext& node) {
  const ValueId x = node.x();
  const Shape shape = node.shape(x);
  if (shape.size() < 2)
    node.invalid("input must have at least two dimensions, but is {}", node.type(x));
  const Dim rows = shape[shape.size() - 2], columns = shape.back();
  const bool upper = node.attr_int("upper", 1) != 0;
  Term row = iota(node, rows, 0, 2);
  const Term column = iota(node, columns, 1, 2);
  if (node.has_input(1)) {
    const ValueId k = node.input(1, "k");
    if (!is_integer(node.dtype(k)) || ir::element_count(node.shape(k)) != Dim(1))
      node.invalid("k must be one integer, but is {}", node.type(k));
    // Beyond all dimensions the diagonals are equal; the clamp keeps row + k from overflowing.
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    if (const auto known = node.folder().constant(k)) {
      row = row + static_cast<double>(std::clamp(known->at_int(0), -kFar, kFar));
    } else {
      const Term diagonal = Term(node, k).cast(DType::kInt64).reshape({});
      row = row +
            clamp(diagonal, static_cast<double>(-kFar), diagonal.number(static_cast<double>(kFar)));
    }
  }
  const ValueId keep = row.with(upper ? "LessOrEqual" : "GreaterOrEqual", column).value();
  node.output(node.add("Where", {keep, x, node.constant(node.dtype(x), 0)}));
}

/// 1 where an index (negative ones count from the end) equals the position along the new axis.
void one_hot(NodeContext& node) {
  const ValueId indices = node.input(0, "indices"), values = node.input(2, "values");
  if (node.shape(values) != Shape{2})
    node.invalid("values must be [off, on], but are {}", node.type(values));
  Dim depth;
  if (is_float(node.dtype(node.input(1, "depth"))))
    depth = ir::double_to_int(DType::kInt64, node.scalar(1, "depth"));
  else
    depth = node.size(1, "depth");
  if (depth.is_constant() && depth.value() < 0) node.invalid("depth is negative");
  const auto rank = node.rank(indices) + 1;
  const std::int64_t axis = node.normalise_axis(node.attr_int("axis", -1), rank);
  ValueId index = node.cast(indices, DType::kInt64);
  const ValueId wrapped = node.add("Add", {index, node.folder().scalar_of(depth)});
  index = node.add("Where",
                   {node.add("Less", {index, node.constant(DType::kInt64, 0)}), wrapped, index});
  Shape spread = node.shape(index);
  spread.insert(spread.begin() + axis, Dim(1));
  Shape along(static_cast<std::size_t>(rank), Dim(1));
  along[static_cast<std::size_t>(axis)] = depth;
  const ValueId positions = node.reshape(node.folder().iota(depth, DType::kInt64), along);
  const auto pick = [&](std::int64_t i) {
    const ValueId one = node.add("Slice", {values},
                                 {{"starts", std::vector<Dim>{Dim(i)}},
                                  {"steps", Ints{1}},
                                  {"shape", std::vector<Dim>{Dim(1)}}});
    return node.reshape(one, {});
  };
  node.output(node.add(
      "Where", {node.add("Equal", {node.reshape(index, spread), positions}), pick(1), pick(0)}));
}

/// Ones at column = row + k.
void eye_like(NodeContext& node) {
  const ValueId x = node.x();
  const Shape shape = node.shape(x);
  if (shape.size() != 2) node.invalid("input must be a matrix, but is {}", node.type(x));
  const DType dtype = node.has_attr("dtype")
                          ? require_dtype(static_cast<int>(node.attr_int("dtype")), "the result")
                          : node.dtype(x);
  const Term row = iota(node, shape[0], 0, 2), column = iota(node, shape[1], 1, 2);
  const Term k = row.number(static_cast<double>(node.attr_int("k", 0)));
  node.output((row + k).with("Equal", column).cast(dtype).value());
}

}  // namespace

const OpRows kGeneratorOps = {
    {"Constant", 1, constant,
     "sparse_value:11- value value_float:12- value_floats:12- value_int:12- value_ints:12- "
     "value_string:12- value_strings:12-"},
    {"ConstantOfShape", 9, constant_of_shape, "value"},
    {"Range", 11, range, "stash_type:27-"},
    {"Range", 1, range, "", kMicrosoft},
    {"Trilu", 14, trilu, "upper"},
    {"Trilu", 1, trilu, "upper", kMicrosoft},
    {"OneHot", 9, one_hot, "axis"},
    {"EyeLike", 9, eye_like, "dtype k"},
};

}  // namespace sinter::frontend
