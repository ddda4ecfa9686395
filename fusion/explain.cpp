// SPDX-License-Identifier: Apache-2.0
#include "fusion/explain.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/pipeline.h"
#include "fusion/regions/cost.h"

namespace sinter::fusion {
namespace {

using Nodes = std::set<NodeId>;
using Names = std::set<std::string>;

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

bool meet(const std::vector<std::string>& origins, const Names& names) {
  return std::ranges::any_of(origins,
                             [&](const std::string& origin) { return names.count(origin) != 0; });
}

Names names_of(const Node& node) { return {node.origins.begin(), node.origins.end()}; }

bool is_kernel(const Node& node) { return node.op->kind == OpKind::kFused; }
bool is_alias(const Node& node) { return node.op->name == "Reshape"; }
const std::string& kind(const Node& node) { return node.attrs.get_string("kind"); }

/// True if `kernel` computes a part of `name` from data. Parts that depend only on constants (casts
/// of weights, which several nodes share) do not count.
bool computes(const Graph& graph, const Node& kernel, const std::string& name) {
  const Graph& body = *kernel.body;
  std::vector<bool> is_data(body.values().size(), false);
  const auto flag = [&](ValueId value) { return is_data[value.position()]; };
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i)
    is_data[body.inputs()[i].position()] = !graph.is_constant(kernel.inputs[i]);
  bool found = false;
  for (const Node& node : body.nodes()) {
    if (!std::ranges::any_of(node.inputs, flag)) continue;
    for (const ValueId output : node.outputs) is_data[output.position()] = true;
    found = found || contains(node.origins, name);
  }
  return found;
}

Nodes nodes_from(const Graph& graph, const std::string& name) {
  Nodes nodes;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    if (contains(graph.nodes()[n].origins, name)) nodes.insert({static_cast<std::int32_t>(n)});
  return nodes;
}

/// Nodes that read `value`, directly or through aliases.
std::vector<NodeId> readers_of(const Graph& graph, ValueId value) {
  std::vector<NodeId> readers;
  for (const NodeId user : graph.users(value)) {
    if (!is_alias(graph.node(user))) {
      readers.push_back(user);
      continue;
    }
    const auto more = readers_of(graph, graph.node(user).outputs[0]);
    readers.insert(readers.end(), more.begin(), more.end());
  }
  return readers;
}

/// True if the value, or an alias of it, is an output of the graph.
bool leaves_graph(const Graph& graph, ValueId value) {
  if (graph.is_output(value)) return true;
  return std::ranges::any_of(graph.users(value), [&](NodeId user) {
    return is_alias(graph.node(user)) && leaves_graph(graph, graph.node(user).outputs[0]);
  });
}

/// `nodes` and everything that depends on them (forward) or on which they depend.
Nodes reach(const Graph& graph, const Nodes& nodes, bool forward) {
  Nodes seen = nodes;
  std::vector<NodeId> open(nodes.begin(), nodes.end());
  const auto visit = [&](NodeId next) {
    if (next.valid() && seen.insert(next).second) open.push_back(next);
  };
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    if (forward) {
      for (const ValueId output : node.outputs)
        for (const NodeId user : graph.users(output)) visit(user);
    } else {
      for (const ValueId input : node.inputs) visit(graph.value(input).producer);
    }
  }
  return seen;
}

/// Nodes on paths from `from` to `to`, ends included; empty if there is no path.
Nodes between(const Graph& graph, const Nodes& from, const Nodes& to) {
  const Nodes behind = reach(graph, from, true), before = reach(graph, to, false);
  Nodes both;
  std::set_intersection(behind.begin(), behind.end(), before.begin(), before.end(),
                        std::inserter(both, both.end()));
  return both;
}

/// Bytes that an unfused model would move between `path`'s nodes, and `kernel` does not.
double saved_on(const Graph& graph, const Nodes& path, const Names& kernel, Precision precision) {
  const bool lowered = precision == Precision::kFloat16 || precision == Precision::kBFloat16;
  double saved = 0;
  for (const NodeId id : path) {
    const Node& node = graph.node(id);
    if (is_alias(node)) continue;
    for (const ValueId value : node.outputs) {
      const bool halved = lowered && graph.type(value).dtype == DType::kFloat32;
      const double bytes = typical_bytes(graph, value) * (halved ? 0.5 : 1.0);
      std::size_t inside = 0;
      bool is_stored = leaves_graph(graph, value);
      for (const NodeId reader : readers_of(graph, value)) {
        inside += path.count(reader);
        is_stored = is_stored || !meet(graph.node(reader).origins, kernel);
      }
      if (inside > 0) saved += bytes * (static_cast<double>(inside) + (is_stored ? 0.0 : 1.0));
    }
  }
  return saved;
}

/// Bytes that both kernels (or parts of one) read from memory.
double read_by_both(const Graph& graph, const Nodes& a, const Nodes& b) {
  const auto sources = [&](const Nodes& nodes) {
    std::set<ValueId> values;
    for (const NodeId id : nodes)
      for (ValueId input : graph.node(id).inputs) {
        while (graph.producer(input) && is_alias(*graph.producer(input)))
          input = graph.producer(input)->inputs[0];
        values.insert(input);
      }
    return values;
  };
  const auto of_a = sources(a), of_b = sources(b);
  double bytes = 0;
  for (const ValueId value : of_a)
    if (of_b.count(value) != 0) bytes += typical_bytes(graph, value);
  return bytes;
}

/// The same for two nodes in one kernel. Constants do not count: merged projections have separate
/// parts of them.
double read_by_both(const Graph& graph, const Node& kernel, const std::string& a,
                    const std::string& b) {
  const Graph& body = *kernel.body;
  const auto reads = [&](const std::string& name) {
    std::set<ValueId> values;
    for (const NodeId id : reach(body, nodes_from(body, name), false))
      values.insert(body.node(id).inputs.begin(), body.node(id).inputs.end());
    return values;
  };
  const auto of_a = reads(a), of_b = reads(b);
  double bytes = 0;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const ValueId inner = body.inputs()[i];
    if (!graph.is_constant(kernel.inputs[i]) && of_a.count(inner) != 0 && of_b.count(inner) != 0)
      bytes += typical_bytes(body, inner);
  }
  return bytes;
}

/// A shortest path over kernels from one of `from` to one of `to`; empty if there is none.
std::vector<NodeId> shortest_path(const Graph& graph, const std::vector<NodeId>& from,
                                  const std::vector<NodeId>& to) {
  std::map<NodeId, NodeId> reached;  // predecessors
  std::vector<NodeId> open;
  for (const NodeId id : from)
    if (reached.emplace(id, NodeId{}).second) open.push_back(id);
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (std::ranges::find(to, open[i]) != to.end()) {
      std::vector<NodeId> path;
      for (NodeId at = open[i]; at.valid(); at = reached.at(at)) path.insert(path.begin(), at);
      return path;
    }
    for (const ValueId output : graph.node(open[i]).outputs)
      for (const NodeId reader : readers_of(graph, output))
        if (reached.emplace(reader, open[i]).second) open.push_back(reader);
  }
  return {};
}

/// Names of the parts of a kernel that store (or read) the values at a boundary.
Names ends(const Node& kernel, const std::set<std::size_t>& indices, bool stores) {
  Names names;
  const Graph& body = *kernel.body;
  for (const std::size_t i : indices) {
    if (stores) {
      if (const Node* node = body.producer(body.outputs()[i]))
        names.insert(node->origins.begin(), node->origins.end());
    } else {
      for (const NodeId reader : readers_of(body, body.inputs()[i]))
        names.insert(body.node(reader).origins.begin(), body.node(reader).origins.end());
    }
  }
  return names;
}

/// True if the definition of an operator names this kind of kernel.
bool has_operator(std::string_view kind) {
  return std::ranges::any_of(ir::all_ops(),
                             [&](const ir::OpDef* op) { return op->kernel == kind; });
}

std::string reason_of(const Node& from, const Node& to) {
  const auto is_one_of = [](const Node& node, std::initializer_list<std::string_view> kinds) {
    return std::ranges::find(kinds, kind(node)) != kinds.end();
  };
  if (is_one_of(to, {"matmul", "conv", "gemm", "attention"}))
    return "products, convolutions and attention read their operands from memory: of what makes "
           "these they take in views alone, but for few rows: a norm's, one query's, a cache's new "
           "one";
  if (is_one_of(from, {"matmul", "conv", "gemm"}))
    return "of what reads a product it takes in bias, residual, activation and a transpose, and on "
           "a GPU in 16 bits one kernel that needs the element or row at hand";
  if (is_one_of(from, {"attention"})) return "attention takes in views of its result alone";
  if (is_one_of(from, {"scatter"}))
    return "what a scatter stores is known when all of its updates are";
  if (is_one_of(from, {"horizontal"}) || is_one_of(to, {"horizontal"}))
    return "small kernels share a launch only with others that wait for as many kernels";
  if (is_one_of(from, {"custom"}))
    return "of what reads a user's kernel it takes in what needs the element at hand, where its "
           "definition has 'epilogue' for the output";
  if (is_one_of(to, {"custom"})) return "a user's kernel reads its inputs from memory";
  for (const Node* node : {&from, &to})
    if (has_operator(kind(*node)))
      return fmt::format("what is of kind '{}' is a kernel of its own", kind(*node));
  return "no pass has tried to bring them together: both were in kernels already";
}

Boundary boundary_at(const Graph& graph, const Context& context, NodeId from, NodeId to) {
  Boundary result;
  result.from = from;
  result.to = to;
  const Node &producer = graph.node(from), &consumer = graph.node(to);
  std::set<std::size_t> stores, reads;
  for (std::size_t o = 0; o < producer.outputs.size(); ++o) {
    const ValueId value = producer.outputs[o];
    const auto readers = readers_of(graph, value);
    if (std::ranges::find(readers, to) == readers.end()) continue;
    const double bytes = typical_bytes(graph, value);
    result.values.push_back(graph.type(value));
    result.read_bytes += bytes;
    if (!leaves_graph(graph, value) &&
        std::ranges::all_of(readers, [&](NodeId reader) { return reader == to; }))
      result.stored_bytes += bytes;
    stores.insert(o);
    for (std::size_t i = 0; i < consumer.inputs.size(); ++i) {
      ValueId read = consumer.inputs[i];
      while (read != value && graph.producer(read) && is_alias(*graph.producer(read)))
        read = graph.producer(read)->inputs[0];
      if (read == value) reads.insert(i);
    }
  }
  // Prefers decisions about the nodes that store and read; otherwise any about the two kernels.
  const auto refusals = [&](const Names& left, const Names& right) {
    std::vector<Decision> found;
    for (const Decision& decision : context.decisions)
      if (!decision.fused && meet(decision.producer_origins, left) &&
          meet(decision.consumer_origins, right))
        found.push_back(decision);
    return found;
  };
  result.decisions = refusals(ends(producer, stores, true), ends(consumer, reads, false));
  if (result.decisions.empty()) result.decisions = refusals(names_of(producer), names_of(consumer));
  const auto is_region = [](const Node& node) {
    return kind(node) == "pointwise" || kind(node) == "reduction";
  };
  if (result.decisions.empty() || !is_region(producer) || !is_region(consumer))
    result.reason = context.fuse ? reason_of(producer, consumer)
                                 : "without fusing every operator is a kernel of its own";
  return result;
}

void explain_shared(const Graph& imported, const Graph& last, const Context& context,
                    Explanation& result) {
  Names kernel;
  for (const NodeId id : result.shared) kernel.merge(names_of(last.node(id)));
  const Nodes of_a = nodes_from(imported, result.a.name),
              of_b = nodes_from(imported, result.b.name);
  Nodes path = between(imported, of_a, of_b);
  if (path.empty()) {
    path = between(imported, of_b, of_a);
    result.from_b_to_a = !path.empty();
  }
  result.side_by_side = path.empty();
  if (result.side_by_side) {
    result.bytes = read_by_both(last, last.node(result.shared[0]), result.a.name, result.b.name);
    result.launches = 1;
    path = of_a;
    path.insert(of_b.begin(), of_b.end());
  } else {
    result.bytes = saved_on(imported, path, kernel, context.precision);
    const auto kernels =
        std::ranges::count_if(path, [&](NodeId id) { return !is_alias(imported.node(id)); });
    result.launches = static_cast<double>(std::max<std::ptrdiff_t>(kernels - 1, 0));
  }
  Names names;
  for (const NodeId id : path) names.merge(names_of(imported.node(id)));
  for (const std::string& name : names)
    if (name != result.a.name && name != result.b.name && kernel.count(name) != 0)
      result.between.push_back(name);
  const auto take_decisions = [&](const Names& producers, const Names& consumers) {
    for (const Decision& decision : context.decisions) {
      if (!decision.fused || !meet(decision.producer_origins, producers) ||
          !meet(decision.consumer_origins, consumers))
        continue;
      result.operations += decision.operations;
      // Skips decisions inside the decomposition of one ONNX node.
      if (decision.producer_origins != decision.consumer_origins)
        result.decisions.push_back(decision);
    }
  };
  take_decisions(names, names);
  // For nodes merged into one operator, the decision names the last of them.
  if (result.decisions.empty()) take_decisions(names, kernel);
}

}  // namespace

Trace::Trace(std::vector<std::string> names, const Graph& imported) {
  for (std::string& name : names) lives_.push_back({.name = std::move(name)});
  after("import", imported);
}

void Trace::after(std::string_view pass, const Graph& graph) {
  for (NodeLife& life : lives_) {
    if (!life.gone_in.empty()) continue;
    Names kinds;
    life.kernels.clear();
    const Nodes all = nodes_from(graph, life.name);
    Nodes nodes;
    std::copy_if(all.begin(), all.end(), std::inserter(nodes, nodes.end()), [&](NodeId id) {
      return !is_kernel(graph.node(id)) || computes(graph, graph.node(id), life.name);
    });
    for (const NodeId id : nodes.empty() ? all : nodes) {
      const Node& node = graph.node(id);
      kinds.insert(is_kernel(node) ? fmt::format("a kernel of kind {}", kind(node))
                                   : node.op->name);
      if (is_kernel(node)) life.kernels.push_back(id);
    }
    const std::string became = fmt::format("{}", fmt::join(kinds, " and "));
    if (became.empty()) {
      life.gone_in = pass;
      const auto found = std::ranges::find(pipeline(), pass, &Pass::name);
      life.gone_because =
          found != pipeline().end()
              ? found->removes
              : "its result was known at import: a constant, a shape, or nothing reads it";
    } else if (life.changes.empty() || life.changes.back().became != became)
      life.changes.push_back({std::string(pass), became});
  }
}

Explanation explain(const Graph& imported, const Graph& last, const Context& context,
                    const NodeLife& a, const NodeLife& b) {
  Explanation result;
  result.a = a;
  result.b = b;
  for (const LayoutChoice& choice : context.layouts)
    if (meet(choice.origins, Names{a.name, b.name})) result.layouts.push_back(choice);
  if (a.kernels.empty() || b.kernels.empty()) {
    result.relation = Relation::kNoKernel;
    return result;
  }
  std::set_intersection(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
                        std::back_inserter(result.shared));
  if (!result.shared.empty()) {
    result.relation = Relation::kOneKernel;
    explain_shared(imported, last, context, result);
    return result;
  }
  // With a node in several kernels, each may precede the other: the model's order counts.
  result.from_b_to_a =
      !between(imported, nodes_from(imported, b.name), nodes_from(imported, a.name)).empty();
  const auto path_from = [&](bool from_b) {
    return from_b ? shortest_path(last, b.kernels, a.kernels)
                  : shortest_path(last, a.kernels, b.kernels);
  };
  std::vector<NodeId> path = path_from(result.from_b_to_a);
  if (path.empty()) {
    path = path_from(!result.from_b_to_a);
    result.from_b_to_a = !path.empty() && !result.from_b_to_a;
  }
  if (path.empty()) {
    result.relation = Relation::kUnrelated;
    result.bytes = read_by_both(last, {a.kernels.begin(), a.kernels.end()},
                                {b.kernels.begin(), b.kernels.end()});
    result.launches = 1;
    return result;
  }
  result.relation = Relation::kSeparate;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    result.boundaries.push_back(boundary_at(last, context, path[i], path[i + 1]));
    const Boundary& boundary = result.boundaries.back();
    result.bytes += boundary.read_bytes + boundary.stored_bytes;
    result.launches += 1;
    for (const Decision& decision : boundary.decisions) result.operations += decision.operations;
  }
  return result;
}

}  // namespace sinter::fusion
