// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/projections/column_slices.h"
#include "fusion/projections/projection.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/quantization.h"

namespace sinter::fusion {
namespace {

/// True if all readers of `value` can read a slice instead: through views into generated kernels,
/// or into matmuls whose operand stays a matrix. An activation or residual that the matmul's call
/// would include is worth more than one launch.
bool reads_slices(const Graph& graph, ValueId value, const TargetTraits& target, const Dim& columns,
                  bool through_view, std::set<ValueId>& seen) {
  // Several paths of views lead to one value; visited ones have not refused.
  if (!seen.insert(value).second) return true;
  if (graph.is_output(value)) return false;
  const auto& users = graph.users(value);
  for (NodeId id : users) {
    const Node& user = graph.node(id);
    switch (user.op->kind) {
      case OpKind::kView:
        if (!reads_slices(graph, user.outputs[0], target, columns, true, seen)) return false;
        break;
      case OpKind::kIndexed:
        // Indices and updates are read elementwise; other data than gathered rows must stay whole.
        if (user.inputs[0] == value &&
            !(gathers_rows(graph, user, columns) &&
              reads_slices(graph, user.outputs[0], target, columns, true, seen)))
          return false;
        break;
      case OpKind::kPointwise:
        if (!through_view && users.size() == 1 && has_activation(target, user.op->name))
          return false;
        if (!through_view && user.op->name == "Add" && target.matmul_epilogue_residual &&
            graph.type(user.inputs[0]) == graph.type(user.inputs[1]))
          return false;
        break;
      case OpKind::kReduce: break;
      case OpKind::kLibrary:
        if (user.op->name == "Attention") {
          if (!is_strided_rows(graph, value, user.inputs.size() < 4 || user.inputs[3] != value))
            return false;
          break;
        }
        if (!is_matrix_product(user) || !is_matrix_access(graph, value)) return false;
        break;
      default: return false;
    }
  }
  return true;
}

/// A slice of a 16-bit value that its only reader rounds to 8 bits: cast(cast(slice) / scale).
struct RoundedSlice {
  const Node* slice = nullptr;
  double scale = 1;
  DType type = DType::kFloat16;
};

const Node* only_reader(const Graph& graph, ValueId value, std::string_view op) {
  if (graph.users(value).size() != 1 || graph.is_output(value)) return nullptr;
  const Node& node = graph.node(graph.users(value)[0]);
  return node.op->name == op && node.inputs[0] == value ? &node : nullptr;
}

std::optional<RoundedSlice> rounded_slice(const Graph& graph, const Node& slice) {
  const Node* wide = only_reader(graph, slice.outputs[0], "Cast");
  if (wide == nullptr || graph.type(wide->outputs[0]).dtype != DType::kFloat32) return std::nullopt;
  const Node* quotient = only_reader(graph, wide->outputs[0], "Quotient");
  if (quotient == nullptr) return std::nullopt;
  const auto scale = known_number(graph, quotient->inputs[1]);
  const Node* codes = only_reader(graph, quotient->outputs[0], "Cast");
  if (!scale || codes == nullptr || !is_float8(graph.type(codes->outputs[0]).dtype))
    return std::nullopt;
  return RoundedSlice{&slice, *scale, graph.type(codes->outputs[0]).dtype};
}

/// Values whose slices are all rounded to fp8 with one scale.
std::set<ValueId> values_to_round(const Graph& graph) {
  std::map<ValueId, std::vector<RoundedSlice>> by_value;
  for (const Node& node : graph.nodes())
    if (node.op->name == "Slice")
      if (const auto rounded = rounded_slice(graph, node))
        by_value[node.inputs[0]].push_back(*rounded);
  std::set<ValueId> result;
  for (const auto& [value, slices] : by_value) {
    Dim elements = 0;
    bool all = slices.size() == graph.users(value).size() && !graph.is_output(value);
    for (const RoundedSlice& each : slices) {
      elements += ir::element_count(graph.type(each.slice->outputs[0]).shape);
      all = all && each.scale == slices[0].scale && each.type == slices[0].type;
    }
    if (all && elements == ir::element_count(graph.type(value).shape)) result.insert(value);
  }
  return result;
}

/// Rounds the whole value before its slices, which the GEMM that computes it may do in its store,
/// instead of each slice.
Graph round_in_front_of_slices(const Graph& graph) {
  const std::set<ValueId> values = values_to_round(graph);
  if (values.empty()) return graph;
  const auto sliced = [&](const Node& codes) -> const Node* {
    const Node* node = &codes;
    for (const std::string_view op : {"Cast", "Quotient", "Cast"}) {
      if (node == nullptr || node->op->name != op) return nullptr;
      node = graph.producer(node->inputs[0]);
    }
    return node != nullptr && node->op->name == "Slice" && values.contains(node->inputs[0])
               ? node
               : nullptr;
  };
  return ir::rewrite(graph,
                     [&](GraphBuilder& builder, const Graph&, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                       const Node* const slice = sliced(node);
                       if (slice == nullptr) return std::nullopt;
                       const Node* const quotient = builder.producer(inputs[0]);
                       const ValueId scale = quotient->inputs[1];
                       const ValueId wide = quotient->inputs[0];
                       const ValueId part = builder.producer(wide)->inputs[0];
                       ValueId value = builder.producer(part)->inputs[0];
                       value = builder.add("Cast", {value}, {{"to", DType::kFloat32}});
                       value = builder.add("Quotient", {value, scale});
                       value = builder.add("Cast", {value}, node.attrs);
                       return std::vector{builder.add("Slice", {value}, slice->attrs)};
                     });
}

}  // namespace

Graph merge_projections(const Graph& graph, Context& context) {
  std::map<ValueId, std::vector<std::vector<Projection>>> by_activation;
  for (const Node& node : graph.nodes()) {
    auto found = find_projection(graph, node, context.target);
    std::set<ValueId> seen;
    if (!found || !reads_slices(graph, found->result(), context.target,
                                graph.type(found->result()).shape.back(), false, seen))
      continue;
    auto& groups = by_activation[node.inputs[0]];
    const auto group = std::ranges::find_if(
        groups, [&](const auto& parts) { return fit_together(graph, parts[0], *found); });
    if (group != groups.end())
      group->push_back(*found);
    else
      groups.push_back({*found});
  }
  std::vector<Piece> pieces;
  for (auto& [activation, groups] : by_activation) {
    for (auto& parts : groups) {
      if (parts.size() < 2) continue;
      for (std::size_t i = 1; i < parts.size(); ++i)
        decide(context, *parts[0].matmul, *parts[i].matmul, true,
               "products of one activation, weights side by side");
      pieces.push_back(joined_projections(graph, std::move(parts)));
    }
  }
  const Graph merged = slice_behind_gathers(round_in_front_of_slices(rebuild(graph, pieces)));
  // A launch is worth more than what one kernel for all of a chain saves.
  return context.target.horizontal ? split_sliced_chains(merged) : merged;
}

}  // namespace sinter::fusion
