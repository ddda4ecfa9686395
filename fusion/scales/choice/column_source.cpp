// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/column_source.h"

#include <vector>

#include "ir/affine.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Traces one element of the activation, at index symbols, back to the matmul.
class ColumnTracer {
 public:
  ColumnTracer(const Graph& graph, ValueId activation)
      : graph_(graph),
        ranges_(graph.ranges()),
        index_(ir::index_symbols(graph.type(activation).shape, ranges_)),
        column_(index_.back()),
        activation_(activation),
        value_(activation) {}

  std::optional<ColumnSource> run() {
    while (const Node* node = graph_.producer(value_)) {
      if (graph_.is_output(value_) || (value_ != activation_ && graph_.users(value_).size() != 1))
        return std::nullopt;
      if (is_layer(*node)) {
        found_.product = node;
        return index_.back() == column_ ? std::optional(found_) : std::nullopt;
      }
      if (!(node->op->kind == OpKind::kView ? follow_view(*node)
                                            : follow_sum(*node) || follow_bias(*node)))
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool is_layer(const Node& node) const {
    return ir::is_plain_matmul(node) && graph_.is_constant(node.inputs[1]) &&
           graph_.type(node.inputs[1]).shape.size() == 2;
  }

  bool follow_view(const Node& node) {
    const auto sources = node.op->view().map(node.attrs, graph_.types(node.inputs),
                                             graph_.type(value_), index_, ranges_);
    if (sources.size() != 1 || !sources[0].guards.empty()) return false;
    index_ = sources[0].index;
    value_ = node.inputs[static_cast<std::size_t>(sources[0].input)];
    return true;
  }

  /// Rows are summed with weights that are the same for all columns.
  bool follow_sum(const Node& node) {
    const bool attends = node.op->name == "Attention";
    if (!attends && !ir::is_plain_matmul(node)) return false;
    value_ = node.inputs[attends ? 2 : 1];
    const Shape& shape = graph_.type(value_).shape;
    if (shape.size() < 2 || shape.size() > index_.size()) return false;
    index_.erase(index_.begin(), index_.end() - std::ssize(shape));
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) index_[d] = 0;
    index_[shape.size() - 2] = 0;  // any index
    return true;
  }

  bool follow_bias(const Node& node) {
    if (node.op->name != "Add" || found_.bias != nullptr || index_.back() != column_) return false;
    for (const std::size_t i : {0U, 1U}) {
      const ValueId constant = node.inputs[i];
      if (!graph_.is_constant(constant) ||
          graph_.type(constant).shape != Shape{graph_.type(value_).shape.back()})
        continue;
      found_.bias = &node;
      value_ = node.inputs[1 - i];
      return graph_.type(value_).shape.size() == index_.size();
    }
    return false;
  }

  const Graph& graph_;
  Ranges ranges_;
  std::vector<Dim> index_;  // of `value_`
  const Dim column_;
  const ValueId activation_;
  ValueId value_;
  ColumnSource found_;
};

}  // namespace

std::optional<ColumnSource> column_source(const Graph& graph, ValueId activation) {
  if (graph.type(activation).shape.empty()) return std::nullopt;
  return ColumnTracer(graph, activation).run();
}

}  // namespace sinter::fusion
