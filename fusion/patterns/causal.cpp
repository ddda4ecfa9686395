#include "fusion/patterns/causal.h"

#include <optional>
#include <string>
#include <vector>

#include "fusion/patterns/positions.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::ValueId;

/// True if element (i, j) of the last two dimensions is seen exactly where j <= i; all other
/// dimensions have one element.
bool is_triangle(const ir::Tensor& mask, bool negated) {
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

/// A mask as a test of sizes: row i sees key j where value >= 0.
class PositionTest {
 public:
  PositionTest(const Graph& graph, ValueId mask) : graph_(graph), ranges_(graph.ranges()) {
    index_ = ir::index_symbols(graph.type(mask).shape, ranges_);
    at_ = element(mask, index_);
  }

  /// How many keys after its own number row i sees, if that is what the test says.
  std::optional<Dim> diagonal(bool negated) const {
    if (!at_) return std::nullopt;
    const Node* test = graph_.producer(at_->value);
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
  struct Element {
    ValueId value;
    std::vector<Dim> index;
  };

  /// What views of `value` read at `index`.
  std::optional<Element> element(ValueId value, const std::vector<Dim>& index) const {
    const ir::TracedView view = ir::trace_view(graph_, value, index, ranges_);
    if (view.sources.size() != 1 || !view.sources[0].guards.empty()) return std::nullopt;
    return Element{view.sources[0].source, view.sources[0].index};
  }

  std::optional<Dim> operand(const Node& node, std::size_t i) const {
    const ir::Shape& shape = graph_.type(node.inputs[i]).shape;
    if (shape.size() > at_->index.size()) return std::nullopt;
    return number_at(graph_, node.inputs[i], operand_index(shape, at_->index), ranges_);
  }

  const Graph& graph_;
  ir::Ranges ranges_;
  std::vector<Dim> index_;
  std::optional<Element> at_;
};

/// How many keys after its own number row i sees, where a constant, or a part of one, says so.
std::optional<Dim> diagonal_of_constant(const Graph& graph, ValueId mask, bool negated) {
  ir::Ranges ranges = graph.ranges();
  const auto index = ir::index_symbols(graph.type(mask).shape, ranges);
  const ir::TracedView view = ir::trace_view(graph, mask, index, ranges);
  if (view.sources.size() != 1 || !view.sources[0].guards.empty()) return std::nullopt;
  const ir::TracedSource& source = view.sources[0];
  const auto& constant = graph.value(source.source).constant;
  if (constant == nullptr || source.index.size() < 2 || !(source.index.back() == index.back()) ||
      !is_triangle(*constant, negated))
    return std::nullopt;
  return source.index[source.index.size() - 2] - index[index.size() - 2];
}

}  // namespace

int causal_of(const Graph& graph, ValueId mask, const ir::Shape& scores, bool negated) {
  const ir::TensorType& type = graph.type(mask);
  const ir::Shape& shape = type.shape;
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

}  // namespace sinter::fusion
