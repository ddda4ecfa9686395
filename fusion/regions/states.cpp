#include "fusion/regions/states.h"

#include <algorithm>

namespace sinter::fusion {

bool changes_state(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->kind != ir::OpKind::kFused || node.attrs.get_string("kind") != "scatter")
    return false;
  const ir::Graph& body = *node.body;
  for (const ir::Node& part : body.nodes()) {
    if (part.op->scatter() == nullptr) continue;
    const auto data = std::find(body.inputs().begin(), body.inputs().end(), part.inputs[0]);
    if (data == body.inputs().end() || part.attrs.get_string("combine") != "none") return false;
    const ir::ValueId value = node.inputs[static_cast<std::size_t>(data - body.inputs().begin())];
    const bool is_state =
        std::any_of(graph.states().begin(), graph.states().end(), [&](const ir::State& state) {
          return graph.inputs()[static_cast<std::size_t>(state.input)] == value;
        });
    if (!is_state || graph.users(value).size() != 1 || graph.is_output(value) ||
        std::count(node.inputs.begin(), node.inputs.end(), value) != 1 ||
        body.users(*data).size() != 1)
      return false;
  }
  return true;
}

}  // namespace sinter::fusion
