#include "fusion/regions/region.h"

#include <algorithm>

#include "fusion/regions/rebuild.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Node;
using ir::NodeId;
using ir::OpKind;
using ir::ValueId;

constexpr int kMaxViewDepth = 16;
constexpr std::size_t kMaxIndices = 8;

/// The element of an operand that broadcasts to the element `index` of a value.
Index broadcast_index(const ir::Shape& operand, const Index& index) {
  Index result(operand.size());
  const std::size_t skip = index.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d)
    result[d] = operand[d] == Dim(1) ? Dim(0) : index[d + skip];
  return result;
}

}  // namespace

bool is_family(const Node& node, std::string_view family) {
  return node.op->kind == ir::OpKind::kFused && node.attrs.get_string("family") == family;
}

Region::Region(const ir::Graph& graph, ir::Shape space, std::vector<std::int64_t> axes,
               const std::vector<bool>& stored)
    : graph_(&graph),
      stored_(&stored),
      space_(std::move(space)),
      axes_(std::move(axes)),
      ranges_(graph.ranges()) {
  identity_ = ir::index_symbols(space_, ranges_);
  for (std::size_t d = 0; d < space_.size(); ++d)
    if (space_[d] == Dim(1)) identity_[d] = Dim(0);
}

bool Region::owns(ValueId value) const {
  const NodeId producer = graph_->value(value).producer;
  return producer.valid() && holds(producer) && copies_.count(producer) == 0;
}

std::optional<Index> Region::step_index(const ir::Shape& shape) const {
  if (shape == space_) return identity_;
  if (axes_.empty()) return std::nullopt;
  Index with_ones = identity_, kept;
  ir::Shape ones = space_, kept_shape;
  for (std::int64_t axis : axes_) {
    with_ones[static_cast<std::size_t>(axis)] = Dim(0);
    ones[static_cast<std::size_t>(axis)] = Dim(1);
  }
  for (std::size_t d = 0; d < space_.size(); ++d) {
    if (std::find(axes_.begin(), axes_.end(), static_cast<std::int64_t>(d)) != axes_.end())
      continue;
    kept.push_back(identity_[d]);
    kept_shape.push_back(space_[d]);
  }
  if (shape == ones) return with_ones;
  if (shape == kept_shape) return kept;
  return std::nullopt;
}

bool Region::leads_here(ValueId value, int depth) const {
  const NodeId id = graph_->value(value).producer;
  if (!id.valid() || depth > kMaxViewDepth) return false;
  if (holds(id)) return true;
  const Node& node = graph_->node(id);
  return node.op->kind == OpKind::kView &&
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return leads_here(input, depth + 1); });
}

Verdict Region::demand(ValueId value, const Index& index, Access access) {
  Demand& demand = demands_[value];
  const bool known =
      std::find(demand.indices.begin(), demand.indices.end(), index) != demand.indices.end();
  const bool tightened = (access == Access::kGuarded && !demand.guarded) ||
                         (access == Access::kWhole && !demand.whole);
  demand.guarded = demand.guarded || access == Access::kGuarded;
  demand.whole = demand.whole || access == Access::kWhole;
  if (!known) demand.indices.push_back(index);
  if (demand.indices.size() > kMaxIndices)
    return {false, "too many different elements of one value are needed at once"};
  const NodeId id = graph_->value(value).producer;
  if (!id.valid() || (known && !tightened)) return {true, ""};
  const Node& node = graph_->node(id);
  if (!holds(id)) {
    // What follows from the index alone is made where it is needed.
    if (node.op->generate() && access != Access::kWhole) {
      nodes_.insert(id);
      copies_.insert(id);
      return {true, ""};
    }
    if (demand.whole || node.op->kind != OpKind::kView || !leads_here(value, 0)) return {true, ""};
    nodes_.insert(id);
    copies_.insert(id);
  }
  return propagate(node, index, access);
}

Verdict Region::propagate(const Node& node, const Index& index, Access access) {
  const auto type = [&](ValueId value) -> const ir::TensorType& { return graph_->type(value); };
  const OpKind kind = node.op->kind;
  if (access == Access::kWhole || (access == Access::kGuarded && kind == OpKind::kReduce))
    return {false, "'" + describe(node) + "' is needed in memory, not element by element"};
  switch (kind) {
    case OpKind::kPointwise:
      for (ValueId input : node.inputs)
        if (Verdict v = demand(input, broadcast_index(type(input).shape, index), access); !v.ok)
          return v;
      return {true, ""};
    case OpKind::kView: {
      std::vector<ir::TensorType> types;
      for (ValueId input : node.inputs) types.push_back(type(input));
      for (const ir::ViewSource& source :
           node.op->view().map(node.attrs, types, type(node.outputs[0]), index, ranges_)) {
        const ValueId input = node.inputs[static_cast<std::size_t>(source.input)];
        const Access inner = source.guards.empty() ? access : Access::kGuarded;
        if (Verdict v = demand(input, source.index, inner); !v.ok) return v;
      }
      return {true, ""};
    }
    case OpKind::kIndexed: {
      if (node.op->generate()) return {true, ""};
      if (node.op->scan()) return scan_at(node, index, access);
      std::vector<ir::TensorType> types;
      for (ValueId input : node.inputs) types.push_back(type(input));
      const ir::ScatterDef* scatter = node.op->scatter();
      if (scatter)
        if (Verdict v = demand(node.inputs[1], index, access); !v.ok) return v;
      const ir::DataIndexMap& map = scatter ? scatter->map : node.op->take()->map;
      for (const ir::DataIndex& position : map(node.attrs, types, index)) {
        if (position.input < 0) continue;
        const ValueId input = node.inputs[static_cast<std::size_t>(position.input)];
        if (Verdict v = demand(input, position.at, access); !v.ok) return v;
      }
      // Which element is only known at run time: the data stays outside, at no known index.
      const Index nowhere(type(node.inputs[0]).shape.size(), Dim(0));
      return demand(node.inputs[0], nowhere, Access::kWhole);
    }
    case OpKind::kReduce: {
      if (!reduces_here(node))
        return {false, "'" + describe(node) + "' reduces over other axes or another shape"};
      const auto row = step_index(type(node.outputs[0]).shape);
      if (!row || *row != index)
        return {false, "a result of '" + describe(node) + "' is needed outside its own row"};
      return demand(node.inputs[0], identity_, access);
    }
    default: break;
  }
  return {false, "'" + describe(node) + "' (" + std::string(to_string(kind)) +
                     ") cannot be computed element by element"};
}

/// A running combination is only right if every step of the iteration adds its own element, and all
/// of a region's run along one axis the same way.
Verdict Region::scan_at(const Node& node, const Index& index, Access access) {
  const auto refuse = [&](const char* why) {
    return Verdict{false, "'" + describe(node) + "' " + why};
  };
  if (access != Access::kPlain || graph_->type(node.outputs[0]).shape != space_ ||
      index != identity_)
    return refuse("is needed at another element than the one at hand");
  if (!axes_.empty()) return refuse("runs along rows that are reduced here");
  for (NodeId other : nodes_) {
    const Node& held = graph_->node(other);
    if (held.op->scatter()) return refuse("has an order of its own, as what is scattered has");
    if (held.op->scan() && (held.attrs.get_int("axis") != node.attrs.get_int("axis") ||
                            held.attrs.get_int("reverse") != node.attrs.get_int("reverse")))
      return refuse("runs another way than what is here");
  }
  return demand(node.inputs[0], identity_, access);
}

bool Region::reduces_here(const Node& node) const {
  return graph_->type(node.inputs[0]).shape == space_ && node.attrs.get_ints("axes") == axes_;
}

Verdict Region::propagate_all(NodeId id) {
  const Node& node = graph_->node(id);
  const Demand own = demands_[node.outputs[0]];
  const Access access = own.whole     ? Access::kWhole
                        : own.guarded ? Access::kGuarded
                                      : Access::kPlain;
  for (const Index& index : own.indices)
    if (Verdict v = propagate(node, index, access); !v.ok) return v;
  return {true, ""};
}

Verdict Region::add_result(NodeId id) {
  const Node& node = graph_->node(id);
  const ir::Shape& shape = graph_->type(node.outputs[0]).shape;
  if (node.op->kind == OpKind::kReduce && !reduces_here(node))
    return {false, "'" + describe(node) + "' reduces over other axes or another shape"};
  // A Scatter's steps are the elements of its updates, which are the space.
  const auto index = node.op->scatter() ? std::optional(identity_) : step_index(shape);
  if (!index)
    return {false,
            "the shapes " + ir::to_string(shape) + " and " + ir::to_string(space_) + " differ"};
  nodes_.insert(id);
  auto& indices = demands_[node.outputs[0]].indices;
  if (std::find(indices.begin(), indices.end(), *index) == indices.end()) indices.push_back(*index);
  return propagate_all(id);
}

Verdict Region::add_producer(NodeId id, bool copy) {
  nodes_.insert(id);
  if (copy) copies_.insert(id);
  return propagate_all(id);
}

std::vector<ValueId> Region::leaves() const {
  std::vector<ValueId> result;
  for (const auto& entry : demands_) {
    const NodeId producer = graph_->value(entry.first).producer;
    if (!producer.valid() || !holds(producer)) result.push_back(entry.first);
  }
  return result;
}

bool Region::reaches_outside(NodeId user, ValueId value) const {
  const Node& node = graph_->node(user);
  return holds(user) && (node.op->take() || node.op->scatter()) && node.inputs[0] == value &&
         !holds(graph_->value(value).producer);
}

bool Region::escapes(ValueId value) const {
  if (graph_->is_output(value) || (*stored_)[static_cast<std::size_t>(value.index)]) return true;
  for (NodeId user : graph_->users(value)) {
    if (reaches_outside(user, value)) return true;
    if (holds(user) && copies_.count(user) == 0) continue;
    const Node& node = graph_->node(user);
    if (!holds(user) && node.op->kind != OpKind::kView) return true;
    for (ValueId out : node.outputs)
      if (escapes(out)) return true;
  }
  return false;
}

std::vector<ValueId> Region::outputs() const {
  std::vector<ValueId> result;
  for (NodeId id : nodes_) {
    if (copies_.count(id) != 0) continue;
    for (ValueId out : graph_->node(id).outputs)
      if (escapes(out)) result.push_back(out);
  }
  return result;
}

void Region::trim_reshapes() {
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id : std::vector<NodeId>(nodes_.begin(), nodes_.end())) {
      const Node& node = graph_->node(id);
      if (node.op->name != "Reshape") continue;
      const NodeId source = graph_->value(node.inputs[0]).producer;
      if (source.valid() && holds(source)) continue;
      nodes_.erase(id);
      copies_.erase(id);
      const auto& users = graph_->users(node.inputs[0]);
      if (std::none_of(users.begin(), users.end(), [&](NodeId user) { return holds(user); }))
        demands_.erase(node.inputs[0]);
      changed = true;
    }
  }
}

Dim Region::evaluations(ValueId value) const {
  const auto found = demands_.find(value);
  if (found == demands_.end()) return Dim(0);
  Dim total(0);
  for (const Index& index : found->second.indices) {
    std::set<std::string> used;
    for (const Dim& dim : index)
      for (std::string& symbol : dim.symbols()) used.insert(std::move(symbol));
    bool per_row = !axes_.empty();
    for (std::int64_t axis : axes_)
      per_row = per_row && used.count(ir::index_symbol(static_cast<int>(axis))) == 0;
    Dim count(1);
    for (std::size_t d = 0; d < space_.size(); ++d)
      if (!per_row ||
          std::find(axes_.begin(), axes_.end(), static_cast<std::int64_t>(d)) == axes_.end())
        count = count * space_[d];
    total = total + count;
  }
  return total;
}

}  // namespace sinter::fusion
