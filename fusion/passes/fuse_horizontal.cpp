// Many small regions that do not depend on each other, in one launch: a kernel that reduces a few
// thousand elements is over before the next one has been started. Regions of one level (as many
// kernels lie on the longest way to each) are independent by construction, and bringing them
// together makes no circle. A concatenation of their results along the outermost axis is made by
// their stores.
#include <algorithm>
#include <map>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::OpKind;
using ir::ValueId;

// Fewer are not worth a table; larger ones fill the GPU themselves; each row takes a block.
constexpr std::size_t kFewest = 4, kMostBuffers = 4000;
constexpr std::int64_t kMostBytes = 1 << 20, kMostRows = 16, kShortestRow = 128;

std::optional<std::int64_t> constant_elements(const ir::TensorType& type) {
  std::int64_t count = 1;
  for (const ir::Dim& dim : type.shape) {
    if (!dim.is_constant()) return std::nullopt;
    count *= dim.value();
  }
  return count;
}

bool is_fused(const Node& node, std::string_view family) {
  return node.op->kind == OpKind::kFused && node.attrs.get_string("family") == family;
}

/// A region that only puts its inputs, each once, behind each other in memory.
bool only_concatenates(const Node& node) {
  if (!is_fused(node, "pointwise") || node.outputs.size() != 1) return false;
  const Graph& body = *node.body;
  for (const Node& part : body.nodes()) {
    if (part.op->name != "Concat") return false;
    const ir::Shape& shape = body.type(part.outputs[0]).shape;
    const auto axis = static_cast<std::size_t>(part.attrs.get_int("axis"));
    if (!std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis),
                     [](const ir::Dim& dim) { return dim == ir::Dim(1); }))
      return false;
    std::vector<ValueId> inputs = part.inputs;
    std::sort(inputs.begin(), inputs.end());
    if (std::adjacent_find(inputs.begin(), inputs.end()) != inputs.end()) return false;
    for (const ValueId input : inputs)
      if (body.users(input).size() != 1 || body.is_constant(input) || body.is_output(input))
        return false;
  }
  return true;
}

class HorizontalFuser {
 public:
  HorizontalFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::map<int, std::vector<NodeId>> by_level;
    std::vector<int> level(graph_.values().size(), 0);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      int here = 0;
      for (const ValueId input : node.inputs)
        here = std::max(here, level[static_cast<std::size_t>(input.index)]);
      if (node.op->name != "Reshape") ++here;
      for (const ValueId output : node.outputs)
        level[static_cast<std::size_t>(output.index)] = here;
      if (is_small(node)) by_level[here].push_back(NodeId{static_cast<std::int32_t>(n)});
    }
    std::vector<Piece> pieces;
    for (const auto& [unused, members] : by_level) add_groups(members, pieces);
    return rebuild(graph_, pieces);
  }

 private:
  /// A reduction of few rows of known length, none of which fills the GPU.
  bool is_small(const Node& node) const {
    if (!is_fused(node, "reduction")) return false;
    std::int64_t bytes = 0;
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const ValueId value : *list) {
        const ir::TensorType& type = graph_.type(value);
        const auto elements = constant_elements(type);
        if (!elements || *elements == 0) return false;
        bytes += *elements * static_cast<std::int64_t>(size_of(type.dtype));
      }
    if (bytes > kMostBytes) return false;
    for (const Node& part : node.body->nodes()) {
      if (part.op->kind != OpKind::kReduce) continue;
      // What is reduced may be made inside the region, of a size that no operand shows.
      const ir::TensorType& type = node.body->type(part.inputs[0]);
      const auto all = constant_elements(type);
      if (!all) return false;
      std::int64_t reduced = 1;
      for (const std::int64_t axis : part.attrs.get_ints("axes"))
        reduced *= type.shape[static_cast<std::size_t>(axis)].value();
      return reduced >= kShortestRow && *all / reduced <= kMostRows;
    }
    return false;
  }

  void add_groups(const std::vector<NodeId>& members, std::vector<Piece>& pieces) {
    std::vector<NodeId> group;
    std::size_t buffers = 0;
    const auto close = [&] {
      if (group.size() >= kFewest) pieces.push_back(piece(group));
      group.clear();
      buffers = 0;
    };
    for (const NodeId id : members) {
      const Node& node = graph_.node(id);
      const std::size_t more = node.inputs.size() + node.outputs.size();
      if (buffers + more > kMostBuffers) close();
      group.push_back(id);
      buffers += more;
    }
    close();
  }

  /// The kernel that reads a result, alone, perhaps through reshapes; none if there are several.
  std::optional<NodeId> reader_of(ValueId value) const {
    while (graph_.users(value).size() == 1 && !graph_.is_output(value)) {
      const NodeId id = graph_.users(value)[0];
      if (graph_.node(id).op->name != "Reshape") return id;
      value = graph_.node(id).outputs[0];
    }
    return std::nullopt;
  }

  /// For a concatenation of nothing but `results`: the reshapes on the way to it.
  std::optional<std::vector<NodeId>> joins(const Node& node,
                                           const std::set<ValueId>& results) const {
    if (!only_concatenates(node)) return std::nullopt;
    std::vector<NodeId> reshapes;
    for (ValueId value : node.inputs)
      while (!results.contains(value)) {
        const Node* from = graph_.producer(value);
        if (!from || from->op->name != "Reshape" || graph_.users(value).size() != 1)
          return std::nullopt;
        reshapes.push_back(graph_.value(value).producer);
        value = from->inputs[0];
      }
    std::reverse(reshapes.begin(), reshapes.end());
    return reshapes;
  }

  Piece piece(const std::vector<NodeId>& group) {
    std::set<ValueId> results, joined;
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    for (const NodeId id : group) {
      const Node& node = graph_.node(id);
      body.copy(node);
      results.insert(node.outputs.begin(), node.outputs.end());
    }
    for (bool changed = true; changed;) {  // a concatenation may be of concatenations
      changed = false;
      std::set<NodeId> readers;
      for (const ValueId value : results)
        if (const auto reader = reader_of(value); reader && !joined.contains(value))
          readers.insert(*reader);
      for (const NodeId id : readers) {
        const Node& node = graph_.node(id);
        const auto reshapes = joins(node, results);
        if (!reshapes) continue;
        for (const NodeId reshape : *reshapes) {
          body.copy(graph_.node(reshape));
          joined.insert(graph_.node(reshape).inputs[0]);
        }
        joined.insert(node.inputs.begin(), node.inputs.end());
        body.copy(node);
        results.insert(node.outputs[0]);
        changed = true;
      }
    }
    std::vector<ValueId> writes;
    for (const ValueId value : results)
      if (!joined.contains(value)) writes.push_back(value);
    context_.decisions.push_back(
        {describe(graph_.node(group.front())), describe(graph_.node(group.back())), true,
         "fused: " + std::to_string(group.size()) + " small kernels in one launch"});
    std::vector<ValueId> stored;
    for (const ValueId value : writes) stored.push_back(body.import(value));
    return body_piece("horizontal", body, stored, writes);
  }

  const Graph& graph_;
  Context& context_;
};

}  // namespace

ir::Graph fuse_horizontal(const ir::Graph& graph, Context& context) {
  if (!context.target.horizontal) return graph;
  return HorizontalFuser(graph, context).run();
}

}  // namespace sinter::fusion
