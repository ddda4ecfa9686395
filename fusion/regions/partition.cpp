// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/partition.h"

#include <algorithm>
#include <numeric>

#include "fusion/regions/rebuild.h"
#include "ir/graph_checks.h"

namespace sinter::fusion {
namespace {

// Kernels have limited parameters and registers.
constexpr std::size_t kMaxNodes = 256;
constexpr std::size_t kMaxLeaves = 48;
constexpr std::size_t kMaxOutputs = 12;
// For graphs of tens of thousands of interdependent nodes: after this many nodes in cycle searches,
// a search is limited to kThen nodes; if it does not end, the node stays outside.
constexpr std::size_t kMostWalked = 3'000'000, kThen = 50;
// Total values of tried regions, and the size limit of regions beyond it: for graphs where
// thousands of regions copy the same hundreds of nodes.
constexpr std::size_t kMostTried = 5'000'000, kThenNodes = 24;
// Of a value with thousands of readers, at most this many are tried.
constexpr std::size_t kMaxReaders = 256;

/// Number of leaves that are stored, seen through views and copies.
std::size_t stored_leaves(const Region& region) {
  std::size_t count = 0;
  for (const auto& [value, demand] : region.demands()) {
    const Value& info = region.graph().value(value);
    const bool made_here = info.producer.valid() && region.holds(info.producer);
    const bool literal = info.constant != nullptr && info.constant->element_count() == 1;
    count += made_here || literal ? 0 : 1;
  }
  return count;
}

}  // namespace

Partition::Partition(const Graph& graph, Context& context)
    : graph_(graph),
      context_(context),
      group_of_(graph.nodes().size(), -1),
      stored_(graph.values().size(), false),
      reach_(graph.nodes().size()) {
  std::iota(reach_.begin(), reach_.end(), std::size_t{0});
}

std::size_t Partition::most_nodes() const { return tried_ > kMostTried ? kThenNodes : kMaxNodes; }

Region Partition::start(Shape space, Ints axes) const {
  return Region(graph_, std::move(space), std::move(axes), stored_);
}

/// Reduced rows may scatter their results, but combining needs an order.
bool Partition::can_scatter(const Region& region, const Node& node) const {
  return context_.target.reductions_scatter && !region.axes().empty() &&
         !node.op->scatter()->combine(node.attrs);
}

Verdict Partition::can_fuse(const Region& region, NodeId id, Side side) const {
  const Node& node = graph_.node(id);
  if (is_grouped(id)) return {false, "'" + describe(node) + "' is already in another kernel"};
  if (const auto left = left_.find(id); left != left_.end()) return {false, left->second};
  if (region.nodes().size() >= most_nodes()) return {false, "the kernel has enough operators"};
  switch (node.op->kind) {
    case OpKind::kPointwise:
    case OpKind::kView: return {true, ""};
    case OpKind::kReduce:
      if (!region.axes().empty()) return {true, ""};
      return {false, "'" + describe(node) + "' is a reduction"};
    case OpKind::kIndexed:
      if (!node.op->scatter() || (side == Side::kBehind && can_scatter(region, node)))
        return {true, ""};
      return {false, "'" + describe(node) + "' has a kernel of its own"};
    case OpKind::kWhile: return {false, "'" + describe(node) + "' is a loop"};
    case OpKind::kExtent: return {false, "'" + describe(node) + "' says what a size is"};
    case OpKind::kFused: return {false, "'" + describe(node) + "' is a kernel of its own"};
    default: return {false, "'" + describe(node) + "' is a library call"};
  }
}

void Partition::decide(NodeId producer, NodeId consumer, const Worth& worth) {
  // A refusal because a node is already taken does not replace one with a real reason.
  Decision& known = decisions_[{producer, consumer}];
  const bool taken = !worth.ok && is_grouped(consumer);
  if ((known.fused && !worth.ok) || (taken && !known.reason.empty())) return;
  // Most refusals repeat, with the same reason.
  if (!worth.ok && known.reason.ends_with(worth.reason) &&
      known.reason.size() == worth.reason.size() + std::string_view("no: ").size() &&
      known.bytes == worth.bytes && known.launches == worth.launches &&
      known.operations == worth.operations)
    return;
  known = decision(graph_.node(producer), graph_.node(consumer), worth.ok, worth.reason);
  known.bytes = worth.bytes;
  known.launches = worth.launches;
  known.operations = worth.operations;
}

/// The last node of the region that reads `value`.
std::optional<NodeId> Partition::last_reader(const Region& region, ValueId value) const {
  const auto& users = graph_.users(value);
  if (users.size() <= region.nodes().size()) {
    for (auto user = users.rbegin(); user != users.rend(); ++user)
      if (region.holds(*user)) return *user;
    return std::nullopt;
  }
  for (auto node = region.nodes().end(); node != region.nodes().begin();) {
    const auto& inputs = graph_.node(*--node).inputs;
    if (std::ranges::find(inputs, value) != inputs.end()) return *node;
  }
  return std::nullopt;
}

void Partition::take(Region& region, Region next) {
  const bool is_sound = !next.reads_views_of_itself();
  if (!is_sound && !sound_) sound_ = std::move(region);
  if (is_sound) sound_.reset();
  region = std::move(next);
}

bool Partition::try_producer(Region& region, ValueId leaf) {
  const NodeId id = graph_.value(leaf).producer;
  if (!id.valid()) return false;
  const Node& node = graph_.node(id);
  const Region::Demand& demand = *region.demands().find(leaf);
  // With values that it reads already: trying would cost more than knowing that.
  const bool is_full = region.nodes().size() >= most_nodes();
  tried_ += region.demands().size();
  const bool reads_too_much = region.lasting_leaves() > kMaxLeaves + graph_.node(id).outputs.size();
  if (node.op->kind == OpKind::kView && !demand.whole) {
    const auto keep_out = [&] {
      if (kept_out_seen_.mark(leaf.position())) kept_out_.push_back(leaf);
      return false;
    };
    if (is_grouped(id) || is_full || reads_too_much) return keep_out();
    // Reads stored values from memory instead of selecting among sources for each element.
    if (node.inputs.size() > 1 && is_stored_anyway(leaf)) return keep_out();
    Region trial = region;
    if (!trial.add_producer(id, true).ok || trial.nodes().size() > kMaxNodes ||
        stored_leaves(trial) > kMaxLeaves || asks_elements(region, trial, node, context_.target))
      return keep_out();
    take(region, std::move(trial));
    return true;
  }
  NodeId consumer = id;
  if (const auto last = last_reader(region, leaf)) consumer = *last;
  const auto refuse = [&](std::string reason) {
    decide(id, consumer, {false, std::move(reason)});
    return false;
  };
  if (Verdict v = can_fuse(region, id, Side::kInFront); !v.ok) return refuse(v.reason);
  if (reads_too_much) return refuse("the kernel would read too many tensors");
  Region moved = region;
  if (Verdict v = moved.add_producer(id, false); !v.ok) return refuse(v.reason);
  if (stored_leaves(moved) > kMaxLeaves) return refuse("the kernel would read too many tensors");
  // A view that could not be added before cannot be added later.
  if (std::ranges::any_of(kept_out_, [&](ValueId view) { return moved.is_view_of_itself(view); }))
    return refuse("the kernel reads a view of '" + describe(node) + "' that is not a part of it");
  if (moved.reads_what_it_changes()) return refuse("the kernel reads what a Scatter changes");
  // Escaping matters only for copies.
  const bool escapes = moved.escapes(leaf);
  const std::size_t copies = escapes ? copying_readers(region, leaf) : 0;
  const bool has_kernel = copies > 0 && first_reader_stores(region, leaf);
  const auto accept = [&](Region& next, Entry entry) {
    const Worth worth =
        worth_fusing(region, next, node, entry, {copies, has_kernel}, context_.target);
    decide(id, consumer, worth);
    if (worth.ok) take(region, std::move(next));
    return worth.ok;
  };
  if (!escapes) return accept(moved, Entry::kMove);

  // One cheap operation that every reader can repeat is not worth storing.
  if (copies > 0 && node.op->kind == OpKind::kPointwise && node.inputs.size() == 1 &&
      work_per_element(node) <= 1) {
    Region copied = region;
    if (copied.add_producer(id, true).ok &&
        worth_fusing(region, copied, node, Entry::kCopy, {copies, has_kernel}, context_.target).ok)
      return accept(copied, Entry::kCopy);
  }
  const auto step = region.step_index(graph_.type(leaf).shape);
  const bool at_step = step && demand.indices == std::vector<Index>{*step};
  if (at_step && moved.outputs().size() <= kMaxOutputs && !has_circle(moved))
    return accept(moved, Entry::kOutput);
  if (node.op->kind == OpKind::kReduce || node.op->scan())
    return refuse("others need '" + describe(node) + "' too, and it is not computed twice");
  Region copied = region;
  if (Verdict v = copied.add_producer(id, true); !v.ok) return refuse(v.reason);
  return accept(copied, Entry::kCopy);
}

std::size_t Partition::copying_readers(const Region& region, ValueId value) const {
  if (graph_.is_output(value)) return 0;
  const NodeId producer = graph_.value(value).producer;
  std::vector<NodeId> readers;
  collect_readers(region, value, readers, SIZE_MAX, kMaxReaders);
  if (readers.size() >= kMaxReaders) return 0;
  const bool all = std::ranges::all_of(readers, [&](NodeId reader) {
    const int group = group_of_[at(reader)];
    if (group >= 0)  // it has its copy
      return groups_[static_cast<std::size_t>(group)].copies().count(producer) != 0;
    const OpKind kind = graph_.node(reader).op->kind;
    return kind == OpKind::kPointwise || kind == OpKind::kReduce;
  });
  return all ? readers.size() + 1 : 0;
}

bool Partition::first_reader_stores(const Region& region, ValueId value) const {
  const auto& users = graph_.users(value);  // in the order of the graph: others do not lead to it
  const auto first = std::ranges::find_if(users, [&](NodeId user) { return !region.holds(user); });
  if (first == users.end() || is_grouped(*first)) return false;
  // What comes before all nodes of the region does not depend on it.
  for (const NodeId id : region.nodes())
    if (region.copies().count(id) == 0 && id < *first) return false;
  const Node& reader = graph_.node(*first);
  return reader.op->kind == OpKind::kPointwise &&
         graph_.type(reader.outputs[0]).shape == graph_.type(value).shape;
}

bool Partition::try_consumer(Region& region, NodeId user, NodeId producer) {
  const Node& node = graph_.node(user);
  const auto refuse = [&](std::string reason) {
    decide(producer, user, {false, std::move(reason)});
    return false;
  };
  if (Verdict v = can_fuse(region, user, Side::kBehind); !v.ok) return refuse(v.reason);
  if (node.op->kind == OpKind::kIndexed && !node.op->scatter())
    return refuse("'" + describe(node) + "' starts a kernel, it does not continue one");
  if (region.lasting_leaves() > kMaxLeaves + node.outputs.size())
    return refuse("the kernel would read or write too many tensors");
  tried_ += region.demands().size();
  Region trial = region;
  if (Verdict v = trial.add_result(user); !v.ok) return refuse(v.reason);
  for (const auto& [value, demand] : region.demands())
    if (region.owns(value) && trial.demands().find(value)->indices.size() != demand->indices.size())
      return refuse("'" + describe(node) + "' needs other elements than the one at hand");
  if (trial.reads_what_it_changes()) return refuse("the kernel reads what a Scatter changes");
  if (trial.nodes().size() > kMaxNodes || stored_leaves(trial) > kMaxLeaves ||
      trial.outputs().size() > kMaxOutputs)
    return refuse("the kernel would read or write too many tensors");
  if (asks_elements(region, trial, node, context_.target))
    return refuse("each element would be asked for where it comes from");
  if (has_circle(trial)) return refuse("a kernel between the two would have to run in the middle");
  double saved = 0;
  for (ValueId input : node.inputs)
    if (region.owns(input))
      saved += typical_bytes(graph_, input) * (trial.escapes(input) ? 1.0 : 2.0);
  decide(producer, user, {true, "saves " + bytes_text(saved), saved, 1});
  take(region, std::move(trial));
  return true;
}

bool Partition::try_consumers(Region& region, ValueId value) {
  // A Scatter's result is complete only after all updates.
  if (graph_.producer(value)->op->scatter()) return false;
  std::vector<NodeId> readers;
  collect_readers(region, value, readers, SIZE_MAX, kMaxReaders);
  const NodeId producer = graph_.value(value).producer;
  for (NodeId reader : readers)
    if (!region.holds(reader) && try_consumer(region, reader, producer)) return true;
  return false;
}

void Partition::grow(Region& region) {
  // Views of the region's own values are usually added in the end; if limits keep one out, the last
  // sound state is restored.
  kept_out_.clear();
  kept_out_seen_.clear(graph_.values().size());
  sound_.reset();
  for (bool changed = true; changed;) {
    changed = false;
    // Consumers first: a producer whose readers are all inside need not be stored.
    for (bool again = true; again;) {
      again = false;
      const std::vector<NodeId> nodes(region.nodes().begin(), region.nodes().end());
      for (NodeId id : nodes)
        for (ValueId value : graph_.node(id).outputs)
          if (region.owns(value)) again = try_consumers(region, value) || again;
      changed = changed || again;
    }
    for (bool again = true; again;) {
      again = false;
      auto leaves = region.leaves();
      for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) {
        const auto producer = graph_.value(*leaf).producer;
        if (producer.valid() && !region.holds(producer))
          again = try_producer(region, *leaf) || again;
      }
      changed = changed || again;
    }
  }
  if (sound_) region = std::move(*sound_);
  region.trim_reshapes();
}

bool Partition::is_stored_anyway(ValueId value) const {
  if (graph_.is_output(value) || stored_[value.position()]) return true;
  return std::ranges::any_of(graph_.users(value), [&](NodeId user) {
    const Node& node = graph_.node(user);
    if (node.op->name == "Reshape") return is_stored_anyway(node.outputs[0]);
    return node.op->kind == OpKind::kFused;
  });
}

/// A reader that will become a generated kernel reads through a transpose for free.
bool Partition::only_kernels_read(ValueId value) const {
  return std::ranges::all_of(graph_.users(value), [&](NodeId user) {
    const Node& node = graph_.node(user);
    if (node.op->name == "Reshape") return only_kernels_read(node.outputs[0]);
    return node.op->kind == OpKind::kFused;
  });
}

void Partition::fold_stores(Region& region) {
  for (ValueId output : region.outputs()) {
    if (graph_.producer(output)->op->scatter()) continue;
    std::vector<NodeId> chain;
    std::size_t stored = 0;  // up to the last transpose
    ValueId value = output, last = output;
    while (!graph_.is_output(value) && graph_.users(value).size() == 1) {
      const NodeId user = graph_.users(value)[0];
      const std::string& op = graph_.node(user).op->name;
      if (region.holds(user) || (op != "Transpose" && op != "Reshape")) break;
      chain.push_back(user);
      value = graph_.node(user).outputs[0];
      if (op == "Transpose") {
        stored = chain.size();
        last = value;
      }
    }
    if (stored == 0) continue;
    if (!only_kernels_read(last)) continue;
    for (std::size_t i = 0; i < stored; ++i) {
      region.add_store_view(chain[i]);
      decide(graph_.value(output).producer, chain[i], {true, "the result is stored through it"});
    }
  }
}

void Partition::collect_readers(const Region& region, ValueId value, std::vector<NodeId>& readers,
                                std::size_t last, std::size_t most) const {
  readers_seen_.clear(graph_.nodes().size());
  values_seen_.clear(graph_.values().size());
  values_seen_.mark(value.position());
  // Depth first, in the order of users; several paths of views lead to one value.
  std::vector<std::pair<ValueId, std::size_t>> open{{value, 0}};
  while (!open.empty() && readers.size() < most) {
    ++walked_;
    const auto [next, number] = open.back();
    const auto& users = graph_.users(next);
    if (number == users.size() || at(users[number]) > last) {
      open.pop_back();
      continue;
    }
    ++open.back().second;
    const NodeId user = users[number];
    const bool copy = region.copies().count(user) != 0;
    const bool reaches = region.reaches_outside(user, next);
    if (reaches) {
      readers.push_back(user);
      readers_seen_.mark(at(user));
    }
    if (reaches || (region.holds(user) && !copy)) continue;
    if (copy || (graph_.node(user).op->kind == OpKind::kView && !is_grouped(user))) {
      const auto& outs = graph_.node(user).outputs;
      for (auto out = outs.rbegin(); out != outs.rend(); ++out)
        if (values_seen_.mark(static_cast<std::size_t>(out->index))) open.emplace_back(*out, 0);
    } else if (readers_seen_.mark(at(user))) {
      readers.push_back(user);
    }
  }
}

bool Partition::has_circle(const Region& region) const {
  std::vector<NodeId> open;
  std::size_t last = 0;  // no path returns from later nodes
  for (NodeId id : region.nodes()) last = std::max(last, at(id));
  // Paths go to later nodes, except through regions, which they may leave before the point of
  // entry.
  for (std::size_t end = last; (end = reach_[last]) != last;) last = end;
  for (NodeId id : region.nodes())
    if (region.copies().count(id) == 0)
      for (ValueId out : graph_.node(id).outputs)
        collect_readers(region, out, open, last, walked_ > kMostWalked ? kThen : SIZE_MAX);
  if (walked_ > kMostWalked && open.size() >= kThen) return true;
  nodes_seen_.clear(graph_.nodes().size());
  groups_seen_.clear(groups_.size());
  const auto push_users = [&](NodeId id) {
    for (ValueId out : graph_.node(id).outputs)
      for (const NodeId user : graph_.users(out))
        if (at(user) <= last) open.push_back(user);
  };
  const std::size_t before = walked_;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!nodes_seen_.mark(at(id))) continue;
    if (region.holds(id)) return true;
    if (++walked_ > kMostWalked && walked_ - before > kThen) return true;
    push_users(id);
    // A committed region is atomic: what enters it may leave at any output.
    const int group = group_of_[at(id)];
    if (group < 0 || !groups_seen_.mark(static_cast<std::size_t>(group))) continue;
    for (NodeId member : groups_[static_cast<std::size_t>(group)].nodes())
      if (group_of_[at(member)] == group) push_users(member);
  }
  return false;
}

void Partition::commit(Region region) {
  std::size_t first = graph_.nodes().size(), last = 0;
  for (NodeId id : region.nodes()) {
    if (region.copies().count(id) != 0) continue;
    group_of_[at(id)] = static_cast<int>(groups_.size());
    first = std::min(first, at(id));
    last = std::max(last, at(id));
  }
  for (std::size_t n = first; n < last; ++n) reach_[n] = std::max(reach_[n], last);
  region.close();
  for (ValueId leaf : region.leaves()) stored_[leaf.position()] = true;
  groups_.push_back(std::move(region));
}

Graph Partition::finish() {
  if (walked_ > kMostWalked || tried_ > kMostTried)
    context_.notes.push_back(
        "regions: the search for paths between regions ended at its limit: kernels are "
        "smaller than they might be");
  for (auto& [edge, decision] : decisions_) context_.decisions.push_back(std::move(decision));
  // Liveness is known only now: all readers of a value may have copied it.
  std::vector<bool> needed(graph_.values().size(), false);
  std::vector<ValueId> open(graph_.outputs());
  for (const Node& node : graph_.nodes())
    if (ir::is_size_check(node, graph_.ranges())) open.push_back(node.outputs[0]);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (needed[value.position()]) continue;
    needed[value.position()] = true;
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) continue;
    if (const int group = group_of_[at(producer)]; group >= 0) {
      const Region& region = groups_[static_cast<std::size_t>(group)];
      const auto leaves = region.leaves();
      open.insert(open.end(), leaves.begin(), leaves.end());
      for (const NodeId id : region.nodes()) {
        const auto& extents = graph_.node(id).extents;
        open.insert(open.end(), extents.begin(), extents.end());
      }
    } else {
      const Node& node = graph_.node(producer);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
      open.insert(open.end(), node.extents.begin(), node.extents.end());
    }
  }
  std::vector<Piece> pieces;
  for (const Region& region : groups_) {
    std::vector<ValueId> outputs;
    for (NodeId id : region.nodes())
      if (region.copies().count(id) == 0)
        for (ValueId out : graph_.node(id).outputs)
          if (needed[out.position()]) outputs.push_back(out);
    if (outputs.empty()) continue;
    const char* kind = region.axes().empty() ? "pointwise" : "reduction";
    for (NodeId id : region.nodes()) {
      if (graph_.node(id).op->scatter()) kind = "scatter";
      if (graph_.node(id).op->scan()) kind = "scan";
    }
    pieces.push_back(
        fused_piece(graph_, kind, {region.nodes().begin(), region.nodes().end()}, outputs));
  }
  return rebuild(graph_, pieces);
}

}  // namespace sinter::fusion
