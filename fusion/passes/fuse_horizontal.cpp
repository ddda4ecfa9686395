// SPDX-License-Identifier: Apache-2.0
// Fuses small independent regions into one launch: a kernel over a few thousand elements ends
// before the next one starts. Regions at the same depth (length of the longest path of kernels to
// them) are independent, and fusing them makes no cycle. Their stores do a concatenation of their
// results along the outermost axis.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/cost.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/region.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

// Limits of one kernel. With many parts, arguments are one structure of buffers, and sizes are in a
// table; only few parts may have symbolic sizes.
constexpr std::size_t kMostBuffers = 4000, kMostSymbolicParts = 16, kMostSymbolicBuffers = 128;
// Different bodies are functions of one kernel; all get as many registers as the largest needs.
constexpr std::size_t kMostBodies = 8, kMostBodyOperators = 96, kMostAllOperators = 256;

bool is_constant(const TensorType& type) {
  return std::ranges::all_of(type.shape, [](const Dim& dim) { return dim.is_constant(); });
}

/// The region's text without sizes: equal texts are (nearly always) one function.
std::string body_text(const Graph& body) {
  std::string text;
  for (const Node& node : body.nodes()) {
    text += node.op->name;
    for (const ValueId input : node.inputs) text += fmt::format(" {}", input.index);
    const TensorType& type = body.type(node.outputs[0]);
    text += fmt::format(":{}{}\n", to_string(type.dtype), type.shape.size());
  }
  return text;
}

/// A region that only concatenates its inputs, each once, in memory.
bool only_concatenates(const Node& node) {
  if (!is_kind(node, "pointwise") || node.outputs.size() != 1) return false;
  const Graph& body = *node.body;
  for (const Node& part : body.nodes()) {
    if (part.op->name != "Concat") return false;
    const Shape& shape = body.type(part.outputs[0]).shape;
    const auto axis = static_cast<std::size_t>(part.attrs.get_int("axis"));
    if (!std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis),
                     [](const Dim& dim) { return dim == ir::Dim(1); }))
      return false;
    std::vector<ValueId> inputs = part.inputs;
    std::ranges::sort(inputs);
    if (std::adjacent_find(inputs.begin(), inputs.end()) != inputs.end()) return false;
    for (const ValueId input : inputs)
      if (body.users(input).size() != 1 || body.is_constant(input) || body.is_output(input))
        return false;
  }
  return true;
}

/// Operators of a region. Those that search the best scale of 8-bit rows are many, but the sums for
/// each tried scale need only a register or two.
std::size_t operators_of(const Graph& body) {
  constexpr std::size_t kRounding = 16;
  const std::size_t all = body.nodes().size();
  const auto exact = ir::rows_before_rounding(body, ir::kRowScaleType);
  return exact ? std::min(all, exact->nodes().size() + kRounding) : all;
}

/// A region that may be fused with others.
struct Candidate {
  NodeId id;
  KernelLoad load;
  std::string body;  // body_text
  std::size_t operators = 0, buffers = 0;
  bool is_constant = true;
};

/// Contents of a kernel for several candidates.
struct Group {
  std::vector<Candidate> members;
  std::set<std::string> bodies;
  std::size_t operators = 0, buffers = 0;
  bool is_constant = true;

  bool takes(const Candidate& next) const {
    const std::size_t most = is_constant && next.is_constant ? kMostBuffers : kMostSymbolicBuffers;
    if (buffers + next.buffers > most) return false;
    if (!(is_constant && next.is_constant) && members.size() >= kMostSymbolicParts) return false;
    return bodies.contains(next.body) ||
           (bodies.size() < kMostBodies && operators + next.operators <= kMostAllOperators);
  }
  void add(Candidate next) {
    if (bodies.insert(next.body).second) operators += next.operators;
    buffers += next.buffers;
    is_constant = is_constant && next.is_constant;
    members.push_back(std::move(next));
  }
};

class HorizontalFuser {
 public:
  HorizontalFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::map<int, std::vector<NodeId>> by_level;
    std::vector<int> level(graph_.values().size(), 0), node_level;
    std::vector<NodeId> last;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      int here = 0;
      for (const auto* ids : {&node.inputs, &node.extents})
        for (const ValueId id : *ids) here = std::max(here, level[id.position()]);
      if (node.op->name != "Reshape") ++here;
      for (const ValueId output : node.outputs) level[output.position()] = here;
      node_level.push_back(here);
      const NodeId id{static_cast<std::int32_t>(n)};
      if (is_kind(node, "reduction") || is_kind(node, "pointwise") || changes_state(graph_, node))
        by_level[here].push_back(id);
      else if (!replaced_states(graph_, node).empty() && !is_read(id))
        last.push_back(id);
    }
    for (const NodeId id : last) by_level[level_behind_readers(id, node_level)].push_back(id);
    delay_last(by_level);
    for (const auto& [unused, nodes] : by_level) add_groups(nodes);
    return rebuild(graph_, pieces_);
  }

 private:
  bool is_read(NodeId id) const {
    return std::ranges::any_of(graph_.node(id).outputs,
                               [&](ValueId value) { return !graph_.users(value).empty(); });
  }

  /// The first level at which `region` changes its states behind all that reads them.
  int level_behind_readers(NodeId region, const std::vector<int>& node_level) const {
    int level = node_level[region.position()];
    std::vector<ValueId> read = replaced_states(graph_, graph_.node(region));
    while (!read.empty()) {
      const ValueId value = read.back();
      read.pop_back();
      for (const NodeId id : graph_.users(value)) {
        const Node& node = graph_.node(id);
        if (node.op->name == "Reshape")
          read.push_back(node.outputs[0]);
        else if (id != region)
          level = std::max(level, node_level[id.position()] + 1);
      }
    }
    return level;
  }

  /// New rows of states that no kernel reads may as well wait for the next level that has others,
  /// if their own has none.
  void delay_last(std::map<int, std::vector<NodeId>>& by_level) const {
    const auto is_awaited = [&](NodeId id) {
      return is_read(id) || replaced_states(graph_, graph_.node(id)).empty();
    };
    for (auto level = by_level.begin(); level != by_level.end(); ++level) {
      if (std::ranges::any_of(level->second, is_awaited)) continue;
      const auto later = std::find_if(std::next(level), by_level.end(), [&](const auto& each) {
        return std::ranges::any_of(each.second, is_awaited);
      });
      if (later == by_level.end()) return;
      later->second.insert(later->second.end(), level->second.begin(), level->second.end());
      level->second.clear();
    }
  }

  double bytes_of(const TensorType& type) const {
    double bytes = static_cast<double>(size_of(type.dtype));
    for (const Dim& dim : type.shape) bytes *= typical(dim, graph_.ranges());
    return bytes;
  }

  /// Bytes that a region reads of an input; for a slice or gather, of its result.
  double bytes_read(const Graph& body, ValueId input) const {
    double read = 0;
    const double all = bytes_of(body.type(input));
    for (const NodeId id : body.users(input)) {
      const Node& user = body.node(id);
      if (user.op->scatter() != nullptr && user.inputs[0] == input) continue;  // updated in place
      const bool picks =
          user.op->kind == OpKind::kView || user.op->name == "Take" || user.op->name == "Gather";
      read += picks && user.inputs[0] == input ? bytes_of(body.type(user.outputs[0])) : all;
    }
    return std::min(read, all);
  }

  KernelLoad load_of(const Node& node) const {
    const Graph& body = *node.body;
    KernelLoad load;
    for (const ValueId input : body.inputs()) load.bytes += bytes_read(body, input);
    for (const ValueId output : body.outputs()) {
      const Node* from = body.producer(output);
      const bool scatters = from != nullptr && from->op->scatter() != nullptr;
      load.bytes += bytes_of(body.type(scatters ? from->inputs[1] : output));
    }
    for (const Node& part : body.nodes()) {
      if (part.op->kind != OpKind::kReduce) continue;
      // The reduced value may be computed in the region, with a size that no operand has.
      const TensorType& type = body.type(part.inputs[0]);
      double elements = 1, length = 1;
      for (const Dim& dim : type.shape) elements *= typical_size(dim);
      for (const std::int64_t axis : part.attrs.get_ints("axes"))
        length *= typical_size(type.shape[static_cast<std::size_t>(axis)]);
      const double rows = elements / std::max(length, 1.0);
      // More rows keep the target busy anyway; fewer are divided among blocks.
      if (rows < context_.target.multiprocessors)
        load.row_bytes = std::max(load.row_bytes, load.bytes / std::max(rows, 1.0));
    }
    return load;
  }

  double typical_size(const Dim& dim) const { return typical(dim, graph_.ranges()); }

  /// Why `part` of a region should not share a kernel whose blocks treat all regions alike; empty
  /// if it may.
  std::string needs_own_schedule(const Graph& body, const Node& part,
                                 const Candidate& found) const {
    const ir::HorizontalLimits& limits = context_.target.horizontal_limits;
    const Shape& shape = part.inputs.empty() ? ir::Shape() : body.type(part.inputs[0]).shape;
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    if (last < 0) return "";
    if (part.op->name == "Transpose") {
      const auto& perm = part.attrs.get_ints("perm");
      const bool moves = perm.back() != last && shape.back() != ir::Dim(1);
      if (moves && (!found.is_constant || found.load.bytes > limits.small_transpose))
        return "it transposes more than a little, by tiles of its own";
    }
    if (part.op->kind != OpKind::kReduce) return "";
    double rows = 1, length = 1;
    bool across = shape.back() != ir::Dim(1), is_known = true;
    const auto& axes = part.attrs.get_ints("axes");
    for (std::int64_t d = 0; d <= last; ++d) {
      const Dim& dim = shape[static_cast<std::size_t>(d)];
      const bool is_reduced = std::ranges::find(axes, d) != axes.end();
      (is_reduced ? length : rows) *= typical_size(dim);
      is_known = is_known && (dim.is_constant() || !is_reduced);
      across = across && !(is_reduced && d == last);
    }
    if (!across || (is_known && length <= limits.short_row) ||
        (found.is_constant && rows <= limits.strided_rows))
      return "";
    return "its rows lie across memory, where neighbouring threads of a kernel of its own take "
           "them";
  }

  /// Nothing, with `refusal`, for a region that cannot share a kernel.
  std::optional<Candidate> candidate(NodeId id, std::string& refusal) const {
    const Node& node = graph_.node(id);
    Candidate found{id,
                    load_of(node),
                    body_text(*node.body),
                    operators_of(*node.body),
                    node.inputs.size() + node.outputs.size(),
                    true};
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const ValueId value : *list) {
        const TensorType& type = graph_.type(value);
        found.is_constant = found.is_constant && is_constant(type);
        if (std::ranges::find(type.shape, ir::Dim(0)) != type.shape.end()) {
          refusal = "it is empty";
          return std::nullopt;
        }
      }
    for (const Value& value : node.body->values())
      if (ir::is_from_data(value.type.shape, graph_.ranges())) {
        refusal = "its size is found by the run";
        return std::nullopt;
      }
    for (const Node& part : node.body->nodes())
      for (const ValueId output : part.outputs)
        found.is_constant = found.is_constant && is_constant(node.body->type(output));
    for (const Node& part : node.body->nodes()) {
      refusal = needs_own_schedule(*node.body, part, found);
      if (!refusal.empty()) return std::nullopt;
    }
    if (found.operators > kMostBodyOperators) {
      refusal = fmt::format("it has {} operators, too many for a kernel of several regions",
                            found.operators);
      return std::nullopt;
    }
    if (!found.is_constant && found.buffers > kMostSymbolicBuffers) {
      refusal = "it has too many buffers for a kernel of symbolic size";
      return std::nullopt;
    }
    return found;
  }

  void record(NodeId one, NodeId other, bool fused, const std::string& reason) {
    decide(context_, graph_.node(one), graph_.node(other), fused, reason);
    context_.decisions.back().launches = 1;
  }

  /// Forms groups among the regions of one level.
  void add_groups(const std::vector<NodeId>& nodes) {
    std::vector<Candidate> candidates;
    const auto neighbour = [&](NodeId id) { return id == nodes[0] ? nodes[1] : nodes[0]; };
    for (const NodeId id : nodes) {
      if (taken_.contains(id) || nodes.size() < 2) continue;
      std::string refusal;
      auto found = candidate(id, refusal);
      if (found)
        if (const Verdict worth = worth_joining(found->load, nodes.size(), context_.target);
            !worth.ok) {
          refusal = worth.reason;
          found.reset();
        }
      if (found)
        candidates.push_back(std::move(*found));
      else
        record(id, neighbour(id), false, refusal);
    }
    // Sorts equal bodies together, and symbolic sizes apart, so that few of these do not split
    // groups.
    std::map<std::string, std::size_t> order;
    for (const Candidate& found : candidates) order.emplace(found.body, order.size());
    const bool apart = candidates.size() > kMostSymbolicParts;
    std::ranges::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) {
      if (apart && a.is_constant != b.is_constant) return a.is_constant;
      return order.at(a.body) < order.at(b.body);
    });
    Group group;
    for (Candidate& next : candidates) {
      if (!group.members.empty() &&
          (!group.takes(next) || (apart && group.is_constant != next.is_constant))) {
        close(group);
        group = Group();
      }
      group.add(std::move(next));
    }
    close(group);
  }

  /// Drops rows that are too long for so few members.
  void close(const Group& group) {
    std::vector<Candidate> members = group.members;
    while (members.size() > 1) {
      const auto longest =
          std::ranges::max_element(members, [](const Candidate& a, const Candidate& b) {
            return a.load.row_bytes < b.load.row_bytes;
          });
      const Verdict worth = worth_joining(longest->load, members.size() - 1, context_.target);
      if (worth.ok) break;
      const NodeId out = longest->id;
      members.erase(longest);
      record(out, members[0].id, false, worth.reason);
    }
    if (members.size() < 2) return;
    std::vector<NodeId> ids;
    for (const Candidate& member : members) ids.push_back(member.id);
    std::ranges::sort(ids);
    pieces_.push_back(piece(ids));
  }

  /// The only kernel that reads a result, maybe through reshapes; none if there are several.
  std::optional<NodeId> reader_of(ValueId value) const {
    while (graph_.users(value).size() == 1 && !graph_.is_output(value)) {
      const NodeId id = graph_.users(value)[0];
      if (graph_.node(id).op->name != "Reshape") return id;
      value = graph_.node(id).outputs[0];
    }
    return std::nullopt;
  }

  /// For a concatenation of only `results`: the reshapes between them and it.
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
    std::ranges::reverse(reshapes);
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
    for (bool changed = true; changed;) {  // concatenations may be nested
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
        taken_.insert(id);
        results.insert(node.outputs[0]);
        changed = true;
      }
    }
    std::vector<ValueId> writes;
    for (const ValueId value : results)
      if (!joined.contains(value)) writes.push_back(value);
    for (std::size_t k = 1; k < group.size(); ++k)
      record(group[0], group[k], true, fmt::format("{} small kernels in one launch", group.size()));
    std::vector<ValueId> stored;
    for (const ValueId value : writes) stored.push_back(body.import(value));
    return body_piece("horizontal", body, stored, writes);
  }

  const Graph& graph_;
  Context& context_;
  std::vector<Piece> pieces_;
  std::set<NodeId> taken_;  // concatenations that are part of a piece
};

}  // namespace

Graph fuse_horizontal(const Graph& graph, Context& context) {
  if (!context.target.horizontal) return graph;
  return HorizontalFuser(graph, context).run();
}

}  // namespace sinter::fusion
