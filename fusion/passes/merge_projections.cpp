#include <algorithm>
#include <map>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/projections/projection.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

/// True if everything that reads `value` can as well read a slice: through views into generated
/// kernels or into products whose operand stays a matrix. An activation that the product would end
/// with, or a residual, is worth more than one launch saved.
bool reads_slices(const Graph& graph, ValueId value, const TargetTraits& target, bool through_view,
                  std::set<ValueId>& seen) {
  // Views of views lead to one value by many ways; what was seen has not refused.
  if (!seen.insert(value).second) return true;
  if (graph.is_output(value)) return false;
  const auto& users = graph.users(value);
  for (NodeId id : users) {
    const Node& user = graph.node(id);
    switch (user.op->kind) {
      case OpKind::kView:
        if (!reads_slices(graph, user.outputs[0], target, true, seen)) return false;
        break;
      case OpKind::kIndexed:
        // Indices and updates are read element by element, what is looked up in stays whole.
        if (user.inputs[0] == value) return false;
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

}  // namespace

Graph merge_projections(const Graph& graph, Context& context) {
  std::map<ValueId, std::vector<std::vector<Projection>>> by_activation;
  for (const Node& node : graph.nodes()) {
    auto found = find_projection(graph, node, context.target);
    std::set<ValueId> seen;
    if (!found || !reads_slices(graph, found->result(), context.target, false, seen)) continue;
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
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
