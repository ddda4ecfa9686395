// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/masks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fusion/regions/operand.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

std::optional<Dim> of_sequence(const Tensor& constant, std::span<const Dim> index) {
  const std::int64_t count = constant.element_count();
  constexpr std::int64_t kLongest = 1 << 20;
  if (count < 1 || count > kLongest) return std::nullopt;
  const std::int64_t first = constant.at_int(0);
  for (std::int64_t i = 1; i < count; ++i)
    if (constant.at_int(i) != first + i) return std::nullopt;
  return linearize(index, {constant.shape().begin(), constant.shape().end()}) + Dim(first);
}

/// The integer at `index` of `value`, through views: from a generated tensor, or from a constant
/// sequence that counts up by one.
std::optional<Dim> number_at(const Graph& graph, ValueId value, std::span<const Dim> index,
                             const Ranges& ranges) {
  const auto source = ir::trace_to_source(graph, value, index, ranges);
  if (!source || is_float(graph.type(source->source).dtype)) return std::nullopt;
  if (const auto& constant = graph.value(source->source).constant)
    return of_sequence(*constant, source->index);
  const Node* node = graph.producer(source->source);
  if (node == nullptr || node->op->generate() == nullptr) return std::nullopt;
  return node->op->generate()->value(node->attrs, source->index);
}

/// The index that a broadcast operand of shape `shape` is read at for `index`.
std::vector<Dim> operand_index(const Shape& shape, std::span<const Dim> index) {
  std::vector<Dim> result(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == Dim(1)) result[d] = Dim(0);
  return result;
}

/// True if element (i, j) of the last two dimensions is visible exactly for j <= i; all other
/// dimensions have size 1.
bool is_triangle(const Tensor& mask, bool negated) {
  const auto& shape = mask.shape();
  if (shape.size() < 2) return false;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d)
    if (shape[d] != 1) return false;
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const double value = mask.at(i * columns + j);
      const bool boolean = mask.dtype() == DType::kBool;
      const bool seen = boolean ? (value != 0) != negated : value == 0;
      const bool hidden = boolean ? !seen : value <= kHidden;
      if (j <= i ? !seen : !hidden) return false;
    }
  return true;
}

/// A mask as a comparison of indices: row i sees key j if value >= 0.
class PositionTest {
 public:
  PositionTest(const Graph& graph, ValueId mask) : graph_(graph), ranges_(graph.ranges()) {
    index_ = ir::index_symbols(graph.type(mask).shape, ranges_);
    at_ = ir::trace_to_source(graph, mask, index_, ranges_);
  }

  /// Number of keys after its own index that row i sees, if the comparison has that form.
  std::optional<Dim> diagonal(bool negated) const {
    if (!at_) return std::nullopt;
    const Node* test = graph_.producer(at_->source);
    if (test == nullptr || test->inputs.size() != 2) return std::nullopt;
    const auto left = operand(*test, 0), right = operand(*test, 1);
    if (!left || !right) return std::nullopt;
    const std::string& op = test->op->name;
    const bool strict = op == "Greater" || op == "Less";
    Dim value;
    if (op == "GreaterOrEqual" || op == "Greater")
      value = *left - *right - Dim(strict ? 1 : 0);
    else if (op == "LessOrEqual" || op == "Less")
      value = *right - *left - Dim(strict ? 1 : 0);
    else
      return std::nullopt;
    if (negated) value = Dim(-1) - value;
    const Dim diagonal = value - index_[index_.size() - 2] + index_.back();
    for (const std::string& symbol : diagonal.symbols())
      if (symbol.starts_with("$")) return std::nullopt;
    return diagonal;
  }

 private:
  std::optional<Dim> operand(const Node& node, std::size_t i) const {
    const Shape& shape = graph_.type(node.inputs[i]).shape;
    if (shape.size() > at_->index.size()) return std::nullopt;
    return number_at(graph_, node.inputs[i], operand_index(shape, at_->index), ranges_);
  }

  const Graph& graph_;
  Ranges ranges_;
  std::vector<Dim> index_;
  std::optional<ir::TracedSource> at_;
};

/// The same, for a mask that is a constant or a part of one.
std::optional<Dim> diagonal_of_constant(const Graph& graph, ValueId mask, bool negated) {
  Ranges ranges = graph.ranges();
  const auto index = ir::index_symbols(graph.type(mask).shape, ranges);
  const auto source = ir::trace_to_source(graph, mask, index, ranges);
  if (!source) return std::nullopt;
  const auto& constant = graph.value(source->source).constant;
  const std::vector<Dim>& at = source->index;
  if (constant == nullptr || at.size() < 2 || at.back() != index.back() ||
      !is_triangle(*constant, negated))
    return std::nullopt;
  return at[at.size() - 2] - index[index.size() - 2];
}

}  // namespace

int causal_of(const Graph& graph, ValueId mask, const Shape& scores, bool negated) {
  const TensorType& type = graph.type(mask);
  const Shape& shape = type.shape;
  const Dim m = scores[scores.size() - 2], n = scores.back();
  if (shape.size() < 2 || !(shape[shape.size() - 2] == m) || !(shape.back() == n) || m == Dim(1) ||
      (type.dtype != DType::kBool && !is_float(type.dtype)))
    return 0;
  auto diagonal = diagonal_of_constant(graph, mask, negated);
  if (!diagonal && type.dtype == DType::kBool)
    diagonal = PositionTest(graph, mask).diagonal(negated);
  if (!diagonal) return 0;
  return *diagonal == Dim(0) ? 1 : *diagonal == n - m ? 2 : 0;
}

namespace {

bool is_plain_view(const Node& node) {
  return node.op->kind == OpKind::kView && node.inputs.size() == 1 && node.op->name != "Pad";
}

ValueId add_limit_views(GraphBuilder& builder, const Graph& graph, ValueId value,
                        std::span<const NodeId> views) {
  for (const NodeId id : views)
    value = builder.add(graph.node(id).op->name, {value}, graph.node(id).attrs);
  return value;
}

/// A comparison of its operands: left - right < bound, or the reverse.
struct Comparison {
  bool less = false, strict = false;
};
std::optional<Comparison> comparison(std::string_view op) {
  if (op == "Less") return Comparison{true, true};
  if (op == "LessOrEqual") return Comparison{true, false};
  if (op == "Greater") return Comparison{false, true};
  if (op == "GreaterOrEqual") return Comparison{false, false};
  return std::nullopt;
}

}  // namespace

std::optional<KeyLimits> limits_of(const Graph& graph, ValueId mask, std::span<const NodeId> views,
                                   const Dim& keys, bool negated) {
  if (graph.type(mask).dtype != DType::kBool || keys == Dim(1)) return std::nullopt;
  KeyLimits result;
  result.views.assign(views.begin(), views.end());
  const Node* test = graph.producer(mask);
  while (test != nullptr && is_plain_view(*test)) {
    result.views.insert(result.views.begin(), graph.value(mask).producer);
    mask = test->inputs[0];
    test = graph.producer(mask);
  }
  if (test == nullptr || !comparison(test->op->name)) return std::nullopt;
  result.shape = graph.type(mask).shape;

  const Graph behind = views_only(graph, graph.type(mask), result.views);
  const Shape& shape = behind.type(behind.outputs()[0]).shape;
  if (shape.empty() || !(shape.back() == keys)) return std::nullopt;
  Ranges ranges = graph.ranges();
  const auto index = ir::index_symbols(shape, ranges);
  const auto traced = ir::trace_to_source(behind, behind.outputs()[0], index, ranges);
  if (!traced) return std::nullopt;

  const std::string key = ir::index_symbol(static_cast<int>(shape.size()) - 1);
  for (const std::size_t side : {0, 1}) {
    const ValueId counted = test->inputs[side], other = test->inputs[1 - side];
    const auto at = [&](ValueId operand) {
      return operand_index(graph.type(operand).shape, traced->index);
    };
    const auto number = number_at(graph, counted, at(counted), ranges);
    if (!number || !is_integer(graph.type(other).dtype)) continue;
    const Dim first = *number - Dim::symbol(key);
    const auto elsewhere = at(other);
    const bool depends = std::ranges::any_of(elsewhere, [&](const Dim& dim) {
      const auto symbols = dim.symbols();
      return std::ranges::find(symbols, key) != symbols.end();
    });
    if (!first.is_constant() || depends) continue;
    // True below the other side, or negated for a mask of hidden keys.
    Comparison seen = *comparison(test->op->name);
    if (side == 1) seen.less = !seen.less;
    if (negated) seen = {!seen.less, !seen.strict};
    if (!seen.less) continue;
    result.operand = other;
    result.more = (seen.strict ? 0 : 1) - first.value();
    return result;
  }
  return std::nullopt;
}

ValueId add_limits(GraphBuilder& builder, const Graph& graph, const KeyLimits& limits,
                   ValueId operand) {
  if (builder.type(operand).dtype != DType::kInt64)
    operand = builder.add("Cast", {operand}, {{"to", ir::Attr(DType::kInt64)}});
  if (limits.more != 0)
    operand = builder.add(
        "Add", {operand, builder.scalar(DType::kInt64, static_cast<double>(limits.more))});
  if (builder.type(operand).shape != limits.shape)
    operand = builder.add("Expand", {operand}, {{"shape", limits.shape}});
  const ValueId all = add_limit_views(builder, graph, operand, limits.views);
  Shape shape = builder.type(all).shape;
  const std::size_t rank = shape.size();
  shape.back() = 1;
  return builder.add(
      "Slice", {all},
      {{"starts", std::vector<Dim>(rank, Dim(0))}, {"steps", Ints(rank, 1)}, {"shape", shape}});
}

}  // namespace sinter::fusion
