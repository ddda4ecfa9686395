// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/quantized_operand.h"

#include <algorithm>

#include "fusion/regions/broadcast.h"
#include "ir/ops/product_types.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

class OperandFinder {
 public:
  explicit OperandFinder(const Graph& graph) : graph_(graph) {}

  std::optional<QuantizedOperand> find(ValueId operand) const {
    const DType type = graph_.type(operand).dtype;
    auto found = is_float(type)          ? scaled({}, operand)
                 : type == DType::kInt32 ? difference({}, operand)
                                         : std::nullopt;
    if (found) std::ranges::reverse(found->views);
    return found;
  }

 private:
  using Found = std::optional<QuantizedOperand>;

  /// The source of `value` before views, casts between floats of 16 bits or more, and casts to its
  /// own type. Records them in `so_far`, last view first.
  ValueId behind_views(QuantizedOperand& so_far, ValueId value) const {
    for (const Node* node = graph_.producer(value); node; node = graph_.producer(value)) {
      const std::string& op = node->op->name;
      const bool is_view = op == "Reshape" || op == "Transpose" || op == "Slice" || op == "Expand";
      const DType to = graph_.type(value).dtype;
      const auto keeps_class = [&](DType from) {
        return from == to || (is_arithmetic_float(from) && is_arithmetic_float(to));
      };
      const bool is_cast = op == "Cast" && keeps_class(graph_.type(node->inputs[0]).dtype);
      if (!is_view && !is_cast) break;
      const NodeId id = graph_.value(value).producer;
      if (is_view) so_far.views.push_back(id);
      so_far.nodes.push_back(id);
      value = node->inputs[0];
    }
    return value;
  }

  OperandParameter parameter(const QuantizedOperand& so_far, ValueId value,
                             ValueId applied_to) const {
    return {value, graph_.type(applied_to).shape.size(), so_far.views.size()};
  }

  /// (values - zero) * scale, the scale being optional.
  Found scaled(QuantizedOperand so_far, ValueId value) const {
    value = behind_views(so_far, value);
    const Node* node = graph_.producer(value);
    if (node == nullptr) return std::nullopt;
    if (node->op->name != "Mul") return float_difference(std::move(so_far), value);
    so_far.nodes.push_back(graph_.value(value).producer);
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId data = node->inputs[i], scale = node->inputs[1 - i];
      if (graph_.type(data).shape != graph_.type(value).shape) continue;
      QuantizedOperand tried = so_far;
      tried.scale = parameter(so_far, scale, value);
      if (Found found = float_difference(std::move(tried), data)) return found;
    }
    return std::nullopt;
  }

  /// A difference of integers cast to float, or of integers each cast to float.
  Found float_difference(QuantizedOperand so_far, ValueId value) const {
    value = behind_views(so_far, value);
    const Node* node = graph_.producer(value);
    if (node != nullptr && node->op->name == "Sub") {
      const ValueId data = node->inputs[0];
      const auto zero = integer_behind(node->inputs[1]);
      if (!zero || graph_.type(data).shape != graph_.type(value).shape) return std::nullopt;
      so_far.nodes.push_back(graph_.value(value).producer);
      so_far.zero = parameter(so_far, *zero, value);
      value = behind_views(so_far, data);
      node = graph_.producer(value);
    }
    if (node == nullptr || node->op->name != "Cast") return std::nullopt;
    so_far.nodes.push_back(graph_.value(value).producer);
    const ValueId integer = node->inputs[0];
    if (graph_.type(integer).dtype == DType::kInt32) return difference(std::move(so_far), integer);
    return values(std::move(so_far), integer);
  }

  /// The integer that the float `value` is a cast of.
  std::optional<ValueId> integer_behind(ValueId value) const {
    const Node* node = graph_.producer(value);
    if (node == nullptr || node->op->name != "Cast") return std::nullopt;
    const ValueId integer = node->inputs[0];
    const DType type = graph_.type(integer).dtype;
    if (type != DType::kInt32 && !ir::is_eight_bit_integer(type)) return std::nullopt;
    return integer;
  }

  /// In int32: values, or values - zero.
  Found difference(QuantizedOperand so_far, ValueId value) const {
    value = behind_views(so_far, value);
    const Node* node = graph_.producer(value);
    if (node != nullptr && node->op->name == "Sub") {
      const ValueId data = node->inputs[0];
      if (so_far.zero || graph_.type(data).shape != graph_.type(value).shape) return std::nullopt;
      so_far.nodes.push_back(graph_.value(value).producer);
      so_far.zero = parameter(so_far, node->inputs[1], value);
      value = behind_views(so_far, data);
      node = graph_.producer(value);
    }
    if (node == nullptr || node->op->name != "Cast") return std::nullopt;
    so_far.nodes.push_back(graph_.value(value).producer);
    return values(std::move(so_far), node->inputs[0]);
  }

  Found values(QuantizedOperand so_far, ValueId value) const {
    value = behind_views(so_far, value);
    const DType type = graph_.type(value).dtype;
    if (!ir::is_eight_bit_integer(type) && !is_float8(type)) return std::nullopt;
    so_far.values = value;
    return so_far;
  }

  const Graph& graph_;
};

bool is_one_number(const Shape& shape) { return ir::element_count(shape) == Dim(1); }

Shape with_leading_ones(Shape shape, std::size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), Dim(1));
  return shape;
}

/// The effect of `view` on a parameter of shape `own` that broadcasts to its input: shape and
/// attributes of the parameter's own view.
struct PlacedView {
  Shape shape;
  Attrs attrs;
};

std::optional<PlacedView> placed_view(const Graph& graph, const Node& view, const Shape& own) {
  const std::string& op = view.op->name;
  const Shape &from = graph.type(view.inputs[0]).shape, &to = graph.type(view.outputs[0]).shape;
  if (op == "Transpose") {
    Shape shape;
    for (const std::int64_t d : view.attrs.get_ints("perm"))
      shape.push_back(own[static_cast<std::size_t>(d)]);
    return PlacedView{std::move(shape), view.attrs};
  }
  if (op != "Reshape") return std::nullopt;
  const auto runs = reshape_runs(from, to);
  if (!runs) return std::nullopt;
  Shape shape;
  for (const ReshapeRun& run : *runs) {
    bool broadcasts = true, whole = true;
    for (std::size_t d = run.from; d < run.from_end; ++d) {
      broadcasts = broadcasts && own[d] == Dim(1);
      whole = whole && own[d] == from[d];
    }
    if (!broadcasts && !whole) return std::nullopt;
    for (std::size_t d = run.to; d < run.to_end; ++d) shape.push_back(whole ? to[d] : Dim(1));
  }
  Attrs attrs{{"shape", shape}};
  return PlacedView{std::move(shape), std::move(attrs)};
}

std::span<const NodeId> views_behind(const QuantizedOperand& operand,
                                     const OperandParameter& parameter) {
  return std::span(operand.views).last(parameter.views);
}

}  // namespace

std::optional<QuantizedOperand> find_quantized_operand(const Graph& graph, ValueId operand) {
  return OperandFinder(graph).find(operand);
}

std::optional<Shape> parameter_shape(const Graph& graph, const QuantizedOperand& operand,
                                     const OperandParameter& parameter) {
  Shape shape = graph.type(parameter.value).shape;
  if (is_one_number(shape)) return Shape{};
  if (shape.size() > parameter.rank) return std::nullopt;
  shape = with_leading_ones(std::move(shape), parameter.rank);
  for (const NodeId id : views_behind(operand, parameter)) {
    auto placed = placed_view(graph, graph.node(id), shape);
    if (!placed) return std::nullopt;
    shape = std::move(placed->shape);
  }
  return shape;
}

ValueId place_parameter(GraphBuilder& builder, const Graph& graph, const QuantizedOperand& operand,
                        const OperandParameter& parameter, ValueId value) {
  const auto reshaped = [&](const Shape& shape) {
    if (builder.type(value).shape == shape) return value;
    return add_folded(builder, "Reshape", {value}, {{"shape", shape}});
  };
  Shape shape = builder.type(value).shape;
  if (is_one_number(shape)) return reshaped({});
  shape = with_leading_ones(std::move(shape), parameter.rank);
  value = reshaped(shape);
  for (const NodeId id : views_behind(operand, parameter)) {
    const Node& view = graph.node(id);
    PlacedView placed = *placed_view(graph, view, shape);
    value = add_folded(builder, view.op->name, {value}, std::move(placed.attrs));
    shape = std::move(placed.shape);
  }
  return value;
}

ValueId place_values(GraphBuilder& builder, const Graph& graph, const QuantizedOperand& operand,
                     ValueId values) {
  for (const NodeId id : operand.views) {
    const Node& view = graph.node(id);
    values = builder.add(view.op->name, {values}, view.attrs);
  }
  return values;
}

ValueId add_folded(GraphBuilder& builder, std::string_view op, std::vector<ValueId> inputs,
                   Attrs attrs) {
  std::vector<Tensor> constants;
  for (const ValueId input : inputs)
    if (const Tensor* constant = builder.constant_of(input)) constants.push_back(*constant);
  if (constants.size() < inputs.size()) return builder.add(op, std::move(inputs), std::move(attrs));
  return builder.constant(ir::evaluate_op(ir::get_op(op), attrs, constants).at(0));
}

}  // namespace sinter::fusion
