// SPDX-License-Identifier: Apache-2.0
#include "fusion/packing/token_cases.h"

#include <algorithm>

#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

class Cases {
 public:
  Cases(const Graph& graph, const Ranges& ranges) : graph_(graph), ranges_(ranges) {}

  std::optional<TokenCases> at(ValueId value, std::span<const Dim> index) {
    if (++steps_ > kMostSteps) return std::nullopt;
    const TensorType& type = graph_.type(value);
    if (graph_.is_constant(value)) return number(type.dtype, splat_value(graph_, value));
    const Node* node = graph_.producer(value);
    if (node == nullptr) return input(value, index);
    if (const auto number_at = counted(value, index); number_at && number_at->is_constant())
      return number(type.dtype, static_cast<double>(number_at->value()));
    if (node->op->kind == OpKind::kView) return through_view(*node, type, index);
    if (node->op->take() != nullptr) return through_take(*node, index);
    if (node->op->kind == OpKind::kPointwise) return through_pointwise(*node, index);
    return std::nullopt;
  }

 private:
  static constexpr int kMostSteps = 1000;

  static std::optional<TokenCases> number(DType type, std::optional<double> value) {
    if (!value) return std::nullopt;
    const Tensor tensor = Tensor::scalar(type, *value);
    return TokenCases{{}, {}, tensor, tensor};
  }

  std::optional<TokenCases> input(ValueId value, std::span<const Dim> index) const {
    const TensorType& type = graph_.type(value);
    if (type.shape.size() != 2) return std::nullopt;
    TokenCases result{value, {}, Tensor::scalar(type.dtype, 0), Tensor::scalar(type.dtype, 1)};
    for (const Dim& dim : index) result.index.push_back(ir::simplify(dim, ranges_));
    return result;
  }

  std::optional<TokenCases> through_view(const Node& node, const TensorType& type,
                                         std::span<const Dim> index) {
    const auto source = source_of(node, type, index);
    return source ? at(node.inputs[static_cast<std::size_t>(source->input)], source->index)
                  : std::nullopt;
  }

  /// The source of a view's element: the only one whose guards all hold.
  std::optional<ir::ViewSource> source_of(const Node& node, const TensorType& type,
                                          std::span<const Dim> index) const {
    for (ir::ViewSource& source :
         node.op->view().map(node.attrs, graph_.types(node.inputs), type, index, ranges_)) {
      const bool holds = std::ranges::all_of(source.guards, [&](const auto& guard) {
        return ir::lower_bound(guard.value, ranges_).value_or(-1) >= 0 &&
               ir::proves_le(guard.value + Dim(1), guard.extent, ranges_);
      });
      if (holds) return std::move(source);
    }
    return std::nullopt;
  }

  /// The integer in `value` at `index`, if it depends only on the index: ir::index_of_value(),
  /// extended by elements gathered at such indices.
  std::optional<Dim> counted(ValueId value, std::span<const Dim> index) {
    if (auto number = ir::index_of_value(graph_, value, index, ranges_)) return number;
    const TensorType& type = graph_.type(value);
    const Node* node = graph_.producer(value);
    if (node == nullptr || !is_integer(type.dtype) || ++steps_ > kMostSteps) return std::nullopt;
    if (node->op->kind == OpKind::kView) {
      const auto source = source_of(*node, type, index);
      return source ? counted(node->inputs[static_cast<std::size_t>(source->input)], source->index)
                    : std::nullopt;
    }
    if (node->op->take() != nullptr) {
      const auto data_at = data_index(*node, index);
      return data_at ? counted(node->inputs[0], *data_at) : std::nullopt;
    }
    const std::string& op = node->op->name;
    if (op != "Add" && op != "Sub" && op != "Mul") return std::nullopt;
    const auto left = counted(node->inputs[0], of_operand(node->inputs[0], index)),
               right = counted(node->inputs[1], of_operand(node->inputs[1], index));
    if (!left || !right) return std::nullopt;
    return op == "Add" ? *left + *right : op == "Sub" ? *left - *right : *left * *right;
  }

  /// The index of the data element that a gather reads.
  std::optional<std::vector<Dim>> data_index(const Node& node, std::span<const Dim> index) {
    std::vector<Dim> data_at;
    for (const ir::DataIndex& dim :
         node.op->take()->map(node.attrs, graph_.types(node.inputs), index)) {
      const auto number = dim.input < 0
                              ? std::optional(dim.at[0])
                              : counted(node.inputs[static_cast<std::size_t>(dim.input)], dim.at);
      if (!number || ir::lower_bound(*number, ranges_).value_or(-1) < 0) return std::nullopt;
      data_at.push_back(*number);
    }
    return data_at;
  }

  std::optional<TokenCases> through_take(const Node& node, std::span<const Dim> index) {
    const auto data_at = data_index(node, index);
    return data_at ? at(node.inputs[0], *data_at) : std::nullopt;
  }

  std::optional<TokenCases> through_pointwise(const Node& node, std::span<const Dim> index) {
    if (const auto compared = comparison(node, index)) return number(DType::kBool, *compared);
    TokenCases result;
    std::vector<Tensor> absent, present;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto operand = at(node.inputs[i], of_operand(node.inputs[i], index));
      if (!operand) return std::nullopt;
      if (!operand->is_constant()) {
        if (result.mask.valid() && (result.mask != operand->mask || result.index != operand->index))
          return std::nullopt;
        result.mask = operand->mask;
        result.index = operand->index;
      }
      absent.push_back(operand->absent);
      present.push_back(operand->present);
    }
    result.absent = ir::evaluate_op(*node.op, node.attrs, absent)[0];
    result.present = ir::evaluate_op(*node.op, node.attrs, present)[0];
    return result;
  }

  /// The result of a comparison of two counted numbers, if it is the same for all elements.
  std::optional<bool> comparison(const Node& node, std::span<const Dim> index) {
    const std::string& op = node.op->name;
    const bool greater = op == "Greater" || op == "GreaterOrEqual";
    if (!greater && op != "Less" && op != "LessOrEqual") return std::nullopt;
    const auto left = counted(node.inputs[0], of_operand(node.inputs[0], index)),
               right = counted(node.inputs[1], of_operand(node.inputs[1], index));
    if (!left || !right) return std::nullopt;
    const Dim above = greater ? *left - *right : *right - *left;
    const std::int64_t least = op.ends_with("OrEqual") ? 0 : 1;
    if (ir::lower_bound(above, ranges_).value_or(least - 1) >= least) return true;
    if (ir::upper_bound(above, ranges_).value_or(least) < least) return false;
    return std::nullopt;
  }

  std::vector<Dim> of_operand(ValueId value, std::span<const Dim> index) const {
    const Shape& shape = graph_.type(value).shape;
    std::vector<Dim> result(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) result[d] = Dim(0);
    return result;
  }

  const Graph& graph_;
  const Ranges& ranges_;
  int steps_ = 0;
};

}  // namespace

std::optional<TokenCases> token_cases(const Graph& graph, ValueId value, std::span<const Dim> index,
                                      const Ranges& ranges) {
  return Cases(graph, ranges).at(value, index);
}

}  // namespace sinter::fusion
