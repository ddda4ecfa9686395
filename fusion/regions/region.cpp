// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/region.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "fusion/regions/rebuild.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

constexpr int kMaxViewDepth = 16;
constexpr std::size_t kMaxIndices = 8;
// Concatenations of slices of concatenations double the guards with each level.
constexpr std::size_t kMaxUses = 32;
// Symbols and functions in an index: reshapes of transposed reshapes nest divisions, which proofs
// must analyse. Models have fewer than ten.
constexpr int kMaxIndexSize = 16;

/// The index at which a broadcast operand is read for element `index` of a value.
Index broadcast_index(const Shape& operand, const Index& index) {
  Index result(operand.size());
  const std::size_t skip = index.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d)
    result[d] = operand[d] == Dim(1) ? Dim(0) : index[d + skip];
  return result;
}

std::size_t with_guards(std::size_t guards, const std::vector<ir::ViewSource::Guard>& more) {
  for (const auto& guard : more)
    for (const Dim* dim : {&guard.value, &guard.extent})
      guards = (guards ^ hash_of(*dim)) * 0x9e3779b97f4a7c15ull + 1;
  return guards;
}

}  // namespace

bool is_kind(const Node& node, std::string_view kind) {
  return node.op->kind == OpKind::kFused && node.attrs.get_string("kind") == kind;
}

Region::Region(const Graph& graph, Shape space, Ints axes, const std::vector<bool>& stored)
    : graph_(&graph), stored_(&stored) {
  Frame frame{std::move(space), std::move(axes), graph.ranges(), {}};
  frame.identity = ir::index_symbols(frame.space, frame.ranges);
  for (std::size_t d = 0; d < frame.space.size(); ++d)
    if (frame.space[d] == Dim(1)) frame.identity[d] = Dim(0);
  frame_ = std::make_shared<const Frame>(std::move(frame));
}

bool Region::owns(ValueId value) const {
  const NodeId producer = graph_->value(value).producer;
  return producer.valid() && holds(producer) && copies_.count(producer) == 0;
}

std::optional<Index> Region::step_index(const Shape& shape) const {
  if (shape == frame_->space) return frame_->identity;
  if (frame_->axes.empty()) return std::nullopt;
  Index with_ones = frame_->identity, kept;
  Shape ones = frame_->space, kept_shape;
  for (std::int64_t axis : frame_->axes) {
    with_ones[static_cast<std::size_t>(axis)] = Dim(0);
    ones[static_cast<std::size_t>(axis)] = Dim(1);
  }
  for (std::size_t d = 0; d < frame_->space.size(); ++d) {
    if (std::ranges::find(frame_->axes, static_cast<std::int64_t>(d)) != frame_->axes.end())
      continue;
    kept.push_back(frame_->identity[d]);
    kept_shape.push_back(frame_->space[d]);
  }
  if (shape == ones) return with_ones;
  if (shape == kept_shape) return kept;
  return std::nullopt;
}

/// Whether views lead from `value` to a value of the region, level by level: each view is visited
/// once, however many paths lead to it.
bool Region::leads_here(ValueId value) const {
  if (nodes_.empty()) return false;
  const NodeId first = *nodes_.begin();  // earlier values lead nowhere here
  std::vector<ValueId> level{value};
  std::unordered_set<std::int32_t> seen;
  for (int depth = 0; depth <= kMaxViewDepth && !level.empty(); ++depth) {
    std::vector<ValueId> next;
    for (const ValueId at : level) {
      const NodeId id = graph_->value(at).producer;
      if (!id.valid() || id < first) continue;
      if (holds(id)) return true;
      const Node& node = graph_->node(id);
      if (node.op->kind != OpKind::kView) continue;
      for (const ValueId input : node.inputs)
        if (seen.insert(input.index).second) next.push_back(input);
    }
    level = std::move(next);
  }
  return false;
}

Verdict Region::demand(ValueId value, const Index& index, Access access, std::size_t guards) {
  lasting_leaves_.reset();
  Demand& demand = demands_.change(value);
  const auto found = std::ranges::find(demand.indices, index);
  const std::pair use(static_cast<std::size_t>(found - demand.indices.begin()), guards);
  if (found == demand.indices.end()) {
    if (std::ranges::any_of(index,
                            [](const Dim& dim) { return ir::is_longer(dim, kMaxIndexSize); }))
      return {false, "where an element lies takes too long a formula"};
    demand.indices.push_back(index);
  }
  const bool known = std::ranges::find(demand.uses, use) != demand.uses.end();
  const bool tightened = (access == Access::kGuarded && !demand.guarded) ||
                         (access == Access::kWhole && !demand.whole);
  demand.guarded = demand.guarded || access == Access::kGuarded;
  demand.whole = demand.whole || access == Access::kWhole;
  if (!known) demand.uses.push_back(use);
  const bool is_whole = demand.whole;
  if (demand.indices.size() > kMaxIndices || demand.uses.size() > kMaxUses)
    return {false, "too many different elements of one value are needed at once"};
  const NodeId id = graph_->value(value).producer;
  if (!id.valid() || (known && !tightened)) return {true, ""};
  const Node& node = graph_->node(id);
  if (!holds(id)) {
    // Generators are copied to their use.
    if (node.op->generate() && access != Access::kWhole) {
      nodes_.insert(id);
      copies_.insert(id);
      return {true, ""};
    }
    if (is_whole || node.op->kind != OpKind::kView || !leads_here(value)) return {true, ""};
    nodes_.insert(id);
    copies_.insert(id);
  }
  return propagate(node, index, access, guards);
}

Verdict Region::propagate(const Node& node, const Index& index, Access access, std::size_t guards) {
  const auto type = [&](ValueId value) -> const TensorType& { return graph_->type(value); };
  const OpKind kind = node.op->kind;
  if (access == Access::kWhole || (access == Access::kGuarded && kind == OpKind::kReduce))
    return {false, "'" + describe(node) + "' is needed in memory, not element by element"};
  switch (kind) {
    case OpKind::kPointwise:
      for (ValueId input : node.inputs)
        if (Verdict v = demand(input, broadcast_index(type(input).shape, index), access, guards);
            !v.ok)
          return v;
      return {true, ""};
    case OpKind::kView: {
      const auto sources = node.op->view().map(node.attrs, graph_->types(node.inputs),
                                               type(node.outputs[0]), index, frame_->ranges);
      if (sources.size() > 1 && !std::ranges::all_of(sources, [&](const ir::ViewSource& source) {
            return std::ranges::all_of(source.guards,
                                       [&](const auto& guard) { return is_range(guard); });
          }))
        choosing_.insert(graph_->value(node.outputs[0]).producer);
      for (const ir::ViewSource& source : sources) {
        const ValueId input = node.inputs[static_cast<std::size_t>(source.input)];
        const Access inner = source.guards.empty() ? access : Access::kGuarded;
        if (Verdict v = demand(input, source.index, inner, with_guards(guards, source.guards));
            !v.ok)
          return v;
      }
      return {true, ""};
    }
    case OpKind::kIndexed: {
      if (node.op->generate()) return {true, ""};
      if (node.op->scan()) return scan_at(node, index, access);
      const std::vector<TensorType> types = graph_->types(node.inputs);
      const ir::ScatterDef* scatter = node.op->scatter();
      if (scatter)
        if (Verdict v = demand(node.inputs[1], index, access, guards); !v.ok) return v;
      const ir::DataIndexMap& map = scatter ? scatter->map : node.op->take()->map;
      for (const ir::DataIndex& position : map(node.attrs, types, index)) {
        if (position.input < 0) continue;
        const ValueId input = node.inputs[static_cast<std::size_t>(position.input)];
        if (Verdict v = demand(input, position.at, access, guards); !v.ok) return v;
      }
      // The element is known only at run time: the data stays outside, with no known index.
      const Index nowhere(type(node.inputs[0]).shape.size(), Dim(0));
      return demand(node.inputs[0], nowhere, Access::kWhole, 0);
    }
    case OpKind::kReduce: {
      if (!reduces_here(node))
        return {false, "'" + describe(node) + "' reduces over other axes or another shape"};
      const auto row = step_index(type(node.outputs[0]).shape);
      if (!row || *row != index)
        return {false, "a result of '" + describe(node) + "' is needed outside its own row"};
      return demand(node.inputs[0], frame_->identity, access, 0);
    }
    default: break;
  }
  return {false, "'" + describe(node) + "' (" + std::string(to_string(kind)) +
                     ") cannot be computed element by element"};
}

/// True if it holds between two indices of a dimension of the space.
bool Region::is_range(const ir::ViewSource::Guard& guard) const {
  return guard.extent.is_constant() && std::ranges::any_of(frame_->identity, [&](const Dim& at) {
           return (guard.value - at).is_constant();
         });
}

/// A scan is correct only if every step adds its own element, and all scans of a region have the
/// same axis and direction.
Verdict Region::scan_at(const Node& node, const Index& index, Access access) {
  const auto refuse = [&](const char* why) {
    return Verdict{false, "'" + describe(node) + "' " + why};
  };
  if (access != Access::kPlain || graph_->type(node.outputs[0]).shape != frame_->space ||
      index != frame_->identity)
    return refuse("is needed at another element than the one at hand");
  if (!frame_->axes.empty()) return refuse("runs along rows that are reduced here");
  for (NodeId other : nodes_) {
    const Node& held = graph_->node(other);
    if (held.op->scatter()) return refuse("has an order of its own, as what is scattered has");
    if (held.op->scan() && (held.attrs.get_int("axis") != node.attrs.get_int("axis") ||
                            held.attrs.get_int("reverse") != node.attrs.get_int("reverse")))
      return refuse("runs another way than what is here");
  }
  return demand(node.inputs[0], frame_->identity, access, 0);
}

bool Region::reduces_here(const Node& node) const {
  return graph_->type(node.inputs[0]).shape == frame_->space &&
         node.attrs.get_ints("axes") == frame_->axes;
}

Verdict Region::propagate_all(NodeId id) {
  const Node& node = graph_->node(id);
  const Demand own = demands_.change(node.outputs[0]);
  const Access access = own.whole     ? Access::kWhole
                        : own.guarded ? Access::kGuarded
                                      : Access::kPlain;
  for (const auto& [at, guards] : own.uses)
    if (Verdict v = propagate(node, own.indices[at], access, guards); !v.ok) return v;
  return {true, ""};
}

Verdict Region::add_result(NodeId id) {
  const Node& node = graph_->node(id);
  const Shape& shape = graph_->type(node.outputs[0]).shape;
  if (node.op->kind == OpKind::kReduce && !reduces_here(node))
    return {false, "'" + describe(node) + "' reduces over other axes or another shape"};
  // A Scatter's steps are the elements of its updates.
  const Shape& steps = node.op->scatter() ? graph_->type(node.inputs[1]).shape : shape;
  const auto index = step_index(steps);
  if (!index)
    return {false, "the shapes " + ir::to_string(steps) + " and " + ir::to_string(frame_->space) +
                       " differ"};
  lasting_leaves_.reset();
  nodes_.insert(id);
  if (node.op->scatter()) scatters_.insert(id);
  Demand& own = demands_.change(node.outputs[0]);
  const auto found = std::ranges::find(own.indices, *index);
  const std::pair use(static_cast<std::size_t>(found - own.indices.begin()), std::size_t{0});
  if (found == own.indices.end()) own.indices.push_back(*index);
  if (std::ranges::find(own.uses, use) == own.uses.end()) own.uses.push_back(use);
  return propagate_all(id);
}

Verdict Region::add_producer(NodeId id, bool copy) {
  lasting_leaves_.reset();
  nodes_.insert(id);
  if (copy) copies_.insert(id);
  return propagate_all(id);
}

bool Region::reads_what_it_changes() const {
  const auto root = [&](ValueId value) {
    for (const Node* node; (node = graph_->producer(value)) && node->op->name == "Reshape";)
      value = node->inputs[0];
    return value;
  };
  return std::ranges::any_of(scatters_, [&](NodeId id) {
    const ValueId data = graph_->node(id).inputs[0];
    return std::ranges::any_of(nodes_, [&](NodeId other) {
      const auto& inputs = graph_->node(other).inputs;
      return std::ranges::any_of(inputs.begin() + (other == id ? 1 : 0), inputs.end(),
                                 [&](ValueId input) { return root(input) == root(data); });
    });
  });
}

bool Region::reads_views_of_itself() const {
  return std::ranges::any_of(demands_,
                             [&](const auto& entry) { return is_view_of_itself(entry.first); });
}

bool Region::is_view_of_itself(ValueId leaf) const {
  const Demand* demand = demands_.find(leaf);
  const NodeId producer = graph_->value(leaf).producer;
  if (!producer.valid() || nodes_.empty() || producer < *nodes_.begin()) return false;
  return demand != nullptr && !demand->whole && !holds(producer) &&
         graph_->node(producer).op->kind == OpKind::kView && leads_here(leaf);
}

void Region::close() {
  frame_ = std::make_shared<const Frame>(Frame{frame_->space, frame_->axes, {}, {}});
}

std::vector<ValueId> Region::leaves() const {
  std::vector<ValueId> result;
  for (const auto& entry : demands_) {
    const NodeId producer = graph_->value(entry.first).producer;
    if (!producer.valid() || !holds(producer)) result.push_back(entry.first);
  }
  return result;
}

std::size_t Region::lasting_leaves() const {
  if (lasting_leaves_) return *lasting_leaves_;
  std::size_t count = 0;
  for (const ValueId leaf : leaves()) {
    const Value& value = graph_->value(leaf);
    const bool literal = value.constant != nullptr && value.constant->element_count() == 1;
    const Node* node = graph_->producer(leaf);
    const bool moves_in =
        node != nullptr && (node->op->kind == OpKind::kView || node->op->generate() != nullptr);
    count += literal || moves_in ? 0 : 1;
  }
  lasting_leaves_ = count;
  return count;
}

bool Region::reaches_outside(NodeId user, ValueId value) const {
  const Node& node = graph_->node(user);
  return holds(user) && (node.op->take() || node.op->scatter()) && node.inputs[0] == value &&
         !holds(graph_->value(value).producer);
}

bool Region::escapes(ValueId value) const {
  // Several paths of views lead to one value; each value is visited once.
  std::vector<ValueId> open{value};
  std::unordered_set<std::int32_t> seen{value.index};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (graph_->is_output(next) || (*stored_)[next.position()]) return true;
    for (NodeId user : graph_->users(next)) {
      if (reaches_outside(user, next)) return true;
      const bool held = holds(user);
      if (held && copies_.count(user) == 0) continue;
      const Node& node = graph_->node(user);
      if (!held && node.op->kind != OpKind::kView) return true;
      for (ValueId out : node.outputs)
        if (seen.insert(out.index).second) open.push_back(out);
    }
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
      lasting_leaves_.reset();
      nodes_.erase(id);
      copies_.erase(id);
      const auto& users = graph_->users(node.inputs[0]);
      if (std::ranges::none_of(users, [&](NodeId user) { return holds(user); }))
        demands_.erase(node.inputs[0]);
      changed = true;
    }
  }
}

Dim Region::evaluations(ValueId value) const {
  const Demand* found = demands_.find(value);
  if (found == nullptr) return Dim(0);
  Dim total(0);
  for (const Index& index : found->indices) {
    std::set<std::string> used;
    for (const Dim& dim : index)
      for (std::string& symbol : dim.symbols()) used.insert(std::move(symbol));
    bool per_row = !frame_->axes.empty();
    for (std::int64_t axis : frame_->axes)
      per_row = per_row && used.count(ir::index_symbol(static_cast<int>(axis))) == 0;
    Dim count(1);
    for (std::size_t d = 0; d < frame_->space.size(); ++d)
      if (!per_row ||
          std::ranges::find(frame_->axes, static_cast<std::int64_t>(d)) == frame_->axes.end())
        count = count * frame_->space[d];
    total += count;
  }
  return total;
}

std::vector<ValueId> replaced_states(const Graph& graph, const Node& node) {
  if (node.op->kind != OpKind::kFused || node.attrs.get_string("kind") != "scatter") return {};
  const Graph& body = *node.body;
  std::vector<ValueId> states;
  for (const Node& part : body.nodes()) {
    if (part.op->scatter() == nullptr) continue;
    const auto data = std::ranges::find(body.inputs(), part.inputs[0]);
    if (data == body.inputs().end() || part.attrs.get_string("combine") != "none") return {};
    const ValueId value = node.inputs[static_cast<std::size_t>(data - body.inputs().begin())];
    const bool is_state = std::ranges::any_of(graph.states(), [&](const ir::State& state) {
      return graph.inputs()[static_cast<std::size_t>(state.input)] == value;
    });
    if (!is_state || graph.is_output(value) || std::ranges::count(node.inputs, value) != 1 ||
        body.users(*data).size() != 1)
      return {};
    states.push_back(value);
  }
  return states;
}

bool changes_state(const Graph& graph, const Node& node) {
  const std::vector<ValueId> states = replaced_states(graph, node);
  return !states.empty() &&
         std::ranges::all_of(states, [&](ValueId state) { return graph.users(state).size() == 1; });
}

}  // namespace sinter::fusion
