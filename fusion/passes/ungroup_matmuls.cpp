// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/grouped_weights.h"
#include "ir/reference/evaluate.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Whether the target has a grouped matmul of plain operands of x's type.
bool has_plain(const TargetTraits& target, const Graph& graph, const Node& node) {
  const DType x = graph.type(node.inputs[0]).dtype;
  const ir::OperandFormats* const row = target.takes("GroupedMatMul", x, to_string(x), false);
  return row != nullptr && graph.type(node.inputs[1]).shape[0].value() <= row->most;
}

/// Why the target has no such grouped matmul; empty if it has.
std::string refusal(const TargetTraits& target, const Graph& graph, const Node& node) {
  const DType x = graph.type(node.inputs[0]).dtype;
  if (const auto format = ir::ProductFormats(node.attrs).w) {
    const ir::OperandFormats* row = target.takes("GroupedMatMul", x, format->codes->name, true);
    if (row == nullptr)
      return fmt::format("this target has no grouped matmul of {} with weights of {}", to_string(x),
                         format->codes->name);
    if (graph.type(node.inputs[1]).shape[0].value() > row->most)
      return fmt::format("this target's grouped matmuls have at most {} groups", row->most);
    const std::int64_t columns = graph.type(node.outputs[0]).shape[1].value(),
                       k = graph.type(node.inputs[0]).shape[1].value();
    const bool is_whole = format->depth == 0 || format->depth >= k;
    if (columns % row->unit != 0 || (!is_whole && format->depth % row->unit != 0))
      return fmt::format(
          "columns and groups of scales of this target's grouped matmuls are "
          "multiples of {}",
          row->unit);
    if (format->offset && !row->offsets)
      return "this target's grouped matmuls add no offsets to quantized weights";
    for (std::size_t i = 1; i + 1 < node.inputs.size(); ++i)
      if (!graph.is_constant(node.inputs[i])) return "its quantized weights are no constants";
    return "";
  }
  if (graph.type(node.inputs[1]).dtype == x && has_plain(target, graph, node)) return "";
  return fmt::format("this target has no grouped matmul of {}", to_string(x));
}

/// The grouped matmul with quantized weights as plain numbers; null: the target has none, or its
/// weights are no constants.
ValueId dequantized(GraphBuilder& builder, const TargetTraits& target, const Graph& graph,
                    const Node& node, std::span<const ValueId> inputs) {
  if (!ir::ProductFormats(node.attrs).w || !has_plain(target, graph, node)) return {};
  std::vector<Tensor> parts;
  for (std::size_t i = 1; i + 1 < inputs.size(); ++i) {
    const Tensor* constant = builder.constant_of(inputs[i]);
    if (constant == nullptr) return {};
    parts.push_back(*constant);
  }
  const TensorType& x = graph.type(node.inputs[0]);
  const ValueId weights =
      builder.constant(dequantized_groups(node, parts, x.shape[1].value(), x.dtype));
  return builder.add("GroupedMatMul", {inputs[0], weights, inputs.back()},
                     {{"transposed", std::int64_t{1}}});
}

/// The matmuls of one GroupedMatMul by the weights of every group.
class Ungrouped {
 public:
  Ungrouped(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs)
      : b_(builder),
        node_(node),
        inputs_(inputs),
        rows_(b_.type(inputs[0]).shape[0]),
        groups_(b_.type(inputs[1]).shape[0].value()) {}

  ValueId run() {
    find_groups();
    // Rows may be gathered from fewer ones, which are multiplied instead.
    ValueId x = inputs_[0], at = iota(rows_, 0);
    if (const Node* gather = b_.producer(x); gather != nullptr && gather->op->name == "Gather" &&
                                             gather->attrs.get_int("axis") == 0 &&
                                             b_.type(gather->inputs[1]).shape.size() == 1) {
      x = gather->inputs[0];
      at = reshape(cast(gather->inputs[1], DType::kInt64), {rows_, Dim(1)});
    }
    const auto format = ir::ProductFormats(node_.attrs).w;
    const ValueId y = format ? scaled(x, at, *format) : plain(x, at);
    return b_.add("Where", {is_in_, y, zero_of(y)});
  }

 private:
  ValueId cast(ValueId value, DType to) {
    return b_.type(value).dtype == to ? value : b_.add("Cast", {value}, {{"to", to}});
  }
  ValueId reshape(ValueId value, Shape shape) {
    return b_.add("Reshape", {value}, {{"shape", std::move(shape)}});
  }
  ValueId zero_of(ValueId value) { return b_.scalar(b_.type(value).dtype, 0); }
  /// 0, 1, .. along one of two dimensions.
  ValueId iota(const Dim& count, std::int64_t axis) {
    const Shape shape = axis == 0 ? Shape{count, Dim(1)} : Shape{Dim(1), count};
    return b_.add("Iota", {}, {{"shape", shape}, {"axis", axis}, {"dtype", DType::kInt64}});
  }

  /// Each row's group, the number of those that end in front of it; and whether it is in one.
  void find_groups() {
    const ValueId offsets = cast(inputs_.back(), DType::kInt64);
    const auto part = [&](std::int64_t first, std::int64_t count) {
      const ValueId slice =
          b_.add("Slice", {offsets},
                 {{"starts", Shape{Dim(first)}}, {"steps", Ints{1}}, {"shape", Shape{Dim(count)}}});
      return reshape(slice, {Dim(1), Dim(count)});
    };
    const ValueId row = iota(rows_, 0);
    const ValueId ended = cast(b_.add("GreaterOrEqual", {row, part(1, groups_)}), DType::kInt64);
    const ValueId group =
        b_.add("ReduceSum", {ended}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
    const auto number = [&](std::int64_t value) {
      return b_.scalar(DType::kInt64, static_cast<double>(value));
    };
    is_in_ = b_.add("And", {b_.add("GreaterOrEqual", {row, part(0, 1)}),
                            b_.add("Less", {group, number(groups_)})});
    group_ = b_.add("Min", {group, number(groups_ - 1)});
  }

  /// All in one batched matmul, of which each row's group is taken.
  ValueId plain(ValueId x, ValueId at) {
    const Shape shape = b_.type(x).shape;
    ValueId weights = inputs_[1];
    if (node_.attrs.get_int("transposed") != 0)
      weights = b_.add("Transpose", {weights}, {{"perm", Ints{0, 2, 1}}});
    const ValueId all = b_.add("MatMul", {reshape(x, {Dim(1), shape[0], shape[1]}), weights});
    return b_.add("Take", {all, group_, at, iota(b_.type(all).shape[2], 1)});
  }

  /// One after the other, as weights in a format have no batch.
  ValueId scaled(ValueId x, ValueId at, const ir::ScaleFormat& format) {
    ValueId result;
    for (std::int64_t g = 0; g < groups_; ++g) {
      std::vector<ValueId> operands{x};
      for (const ValueId part : inputs_.subspan(1, inputs_.size() - 2))
        operands.push_back(of_group(part, g));
      const ValueId y = b_.add("MatMul", std::move(operands), ir::product_attrs(format));
      const ValueId own = b_.add("Take", {y, at, iota(b_.type(y).shape[1], 1)});
      const ValueId is_own =
          b_.add("Equal", {group_, b_.scalar(DType::kInt64, static_cast<double>(g))});
      result = g == 0 ? own : b_.add("Where", {is_own, own, result});
    }
    return result;
  }

  /// The matrix of group `g`; constants stay constants.
  ValueId of_group(ValueId part, std::int64_t g) {
    const Shape shape = b_.type(part).shape;
    const Attrs attrs{{"starts", Shape{Dim(g), Dim(0), Dim(0)}},
                      {"steps", Ints{1, 1, 1}},
                      {"shape", Shape{Dim(1), shape[1], shape[2]}}};
    if (const Tensor* constant = b_.constant_of(part)) {
      const Tensor one[] = {*constant};
      return b_.constant(ir::evaluate_op(ir::get_op("Slice"), attrs, one)
                             .at(0)
                             .reshaped({shape[1].value(), shape[2].value()}));
    }
    return reshape(b_.add("Slice", {part}, attrs), {shape[1], shape[2]});
  }

  GraphBuilder& b_;
  const Node& node_;
  std::span<const ValueId> inputs_;
  Dim rows_;
  std::int64_t groups_;
  ValueId group_, is_in_;  // [rows, 1]
};

}  // namespace

Graph ungroup_matmuls(const Graph& graph, Context& context) {
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (node.op->name != "GroupedMatMul") return std::nullopt;
        const std::string no = refusal(context.target, old, node);
        if (no.empty()) return std::nullopt;
        if (const ValueId plain = dequantized(builder, context.target, old, node, inputs);
            plain.valid()) {
          decide(context, node, node, false, no + ": its weights are dequantized at compile time");
          return std::vector{plain};
        }
        decide(context, node, node, false, no + ": every group multiplies all rows");
        return std::vector{Ungrouped(builder, node, inputs).run()};
      });
}

}  // namespace sinter::fusion
