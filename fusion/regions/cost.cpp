// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/cost.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

constexpr std::int64_t kTypicalSymbol = 32;
// Both kinds of machine do about this many scalar operations while they move one byte.
constexpr double kOpsPerByte = 8;

/// Operations of the convolution in a region of kind "conv".
double operations_of(const Node& region) {
  const Graph& body = *region.body;
  for (const Node& node : body.nodes()) {
    if (node.op->name != "Conv") continue;
    const Shape& weights = body.type(node.inputs[1]).shape;
    double taps = 2;  // operations for each output: all weights of an output channel
    for (std::size_t d = 1; d < weights.size(); ++d) taps *= typical(weights[d], body.ranges());
    const TensorType& result = body.type(node.outputs[0]);
    return taps * typical_bytes(body, node.outputs[0]) / static_cast<double>(size_of(result.dtype));
  }
  return 0;
}

/// A region with an 8-bit matmul, whose accumulators a reader first casts.
bool is_eight_bit_product(const Node& region) {
  return std::ranges::any_of(region.body->nodes(), [&](const Node& node) {
    return has_eight_bit_operands(*region.body, node);
  });
}

/// True if `node` is elementwise on a matmul's result: part of its epilogue, if the kernel is
/// ours.
bool follows_product(const Graph& graph, const Node& node, const TargetTraits& target) {
  if (!target.gemm_kernels || node.op->kind != OpKind::kPointwise) return false;
  return std::ranges::any_of(node.inputs, [&](ValueId input) {
    const Node* producer = graph.producer(input);
    if (producer == nullptr || producer->op->kind != OpKind::kFused) return false;
    const std::string& kind = producer->attrs.get_string("kind");
    const bool sums = is_eight_bit_product(*producer);
    const DType type = graph.type(node.outputs[0]).dtype;
    const bool multiplied = size_of(type) == 2 || type == DType::kFloat32;
    if (!sums && (!multiplied || graph.type(input) != graph.type(node.outputs[0]))) return false;
    const bool own = kind == "matmul" ||
                     (kind == "conv" && operations_of(*producer) <= target.conv_kernel_flops);
    return own && graph.users(input).size() == 1 &&
           graph.type(input).shape == graph.type(node.outputs[0]).shape;
  });
}

/// Bytes of leaves that `after` reads and `before` does not.
double new_leaf_bytes(const Region& before, const Region& after) {
  double bytes = 0;
  for (ValueId leaf : after.leaves())
    if (before.demands().count(leaf) == 0 || before.owns(leaf))
      bytes += typical_bytes(after.graph(), leaf);
  return bytes;
}

/// True if `value` is padded, directly or after other views.
bool is_padded(const Graph& graph, ValueId value) {
  return std::ranges::any_of(graph.users(value), [&](NodeId user) {
    const Node& node = graph.node(user);
    return node.op->name == "Pad" || (node.op->kind == OpKind::kView && node.inputs.size() == 1 &&
                                      is_padded(graph, node.outputs[0]));
  });
}

/// True for a cast from a narrow float to float32, which every load of it does anyway.
bool is_widening(const Graph& graph, const Node& node) {
  const DType from = node.inputs.empty() ? DType::kFloat32 : graph.type(node.inputs[0]).dtype;
  return node.op->name == "Cast" && graph.type(node.outputs[0]).dtype == DType::kFloat32 &&
         is_narrow_float(from);
}

}  // namespace

double typical(const Dim& dim, const Ranges& ranges) {
  ir::Bindings bindings;
  for (const std::string& symbol : dim.symbols()) {
    const auto range = ranges.find(symbol);
    bindings[symbol] = range == ranges.end()
                           ? kTypicalSymbol
                           : std::clamp(kTypicalSymbol, range->second.min, range->second.max);
  }
  return static_cast<double>(dim.evaluate(bindings));
}

double typical_bytes(const Graph& graph, ValueId value) {
  const TensorType& type = graph.type(value);
  double bytes = static_cast<double>(size_of(type.dtype));
  for (const Dim& dim : type.shape) bytes *= typical(dim, graph.ranges());
  return bytes;
}

double work_per_element(const Node& node) {
  switch (node.op->kind) {
    case OpKind::kPointwise: {
      double work = 0;
      for (const ir::ScalarNode& step : node.op->pointwise().expression(node.attrs).nodes)
        if (step.kind == ir::ScalarNode::Kind::kOp) work += work_of(step.op);
      return std::max(work, 1.0);
    }
    case OpKind::kView: return 0;
    default: return 2;
  }
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.1f} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

bool asks_elements(const Region& before, const Region& after, const Node& node,
                   const TargetTraits& target) {
  if (target.generates_kernels) return false;
  if (after.choosing_views() > before.choosing_views()) return true;
  if (node.op->kind != OpKind::kView || node.inputs.size() < 2) return false;
  const Graph& graph = after.graph();
  const Dim elements = ir::element_count(graph.type(node.outputs[0]).shape);
  return typical(after.evaluations(node.outputs[0]), graph.ranges()) >
         typical(elements, graph.ranges());
}

Worth worth_fusing(const Region& before, const Region& after, const Node& node, Entry entry,
                   const Copies& copies, const TargetTraits& target) {
  const Graph& graph = after.graph();
  const ValueId value = node.outputs[0];
  const double launch = target.launch_bytes;
  const double bytes = typical_bytes(graph, value);
  const double elements = bytes / static_cast<double>(size_of(graph.type(value).dtype));
  const double evaluations = typical(after.evaluations(value), graph.ranges());
  Worth worth;
  worth.operations = (is_widening(graph, node) ? 0 : work_per_element(node)) *
                     std::max(0.0, evaluations - (entry == Entry::kCopy ? 0.0 : elements));
  const double again = worth.operations / kOpsPerByte;
  switch (entry) {
    case Entry::kMove:
      worth.bytes = 2 * bytes;
      worth.launches = 1;
      break;
    case Entry::kOutput:
      worth.bytes = bytes;
      worth.launches = 1;
      break;
    case Entry::kCopy:
      worth.bytes = bytes - new_leaf_bytes(before, after);
      if (copies.readers > 0) {
        const auto readers = static_cast<double>(copies.readers);
        worth.bytes += bytes / readers;
        if (!copies.has_kernel) worth.launches = 1 / readers;
      }
      break;
  }
  if (asks_elements(before, after, node, target)) {
    worth.reason =
        fmt::format("'{}' would be asked for each element where it comes from", describe(node));
    return worth;
  }
  // Interpreted programs copy padded values from memory in runs; computed under a guard, they would
  // be selected element by element.
  const Region::Demand* demand = before.demands().find(value);
  if (!target.generates_kernels && entry == Entry::kMove && demand != nullptr && demand->guarded &&
      node.op->kind == OpKind::kPointwise && is_padded(graph, value)) {
    worth.reason = fmt::format("'{}' is padded as it is read from memory", describe(node));
    return worth;
  }
  // Fusing with the epilogue of a matmul saves no launch and no traffic.
  if (again > 0 && follows_product(graph, node, target)) {
    worth.reason = fmt::format("'{}' goes with the product in front of it", describe(node));
    return worth;
  }
  const double saved = worth.bytes + worth.launches * launch;
  worth.ok = saved > again;
  worth.reason = worth.ok
                     ? fmt::format("saves {}{}", bytes_text(saved - again),
                                   entry == Entry::kCopy     ? ", computed again here"
                                   : entry == Entry::kOutput ? ", stored from here"
                                                             : "")
                     : fmt::format(
                           "computing '{}' again for each reader costs more ({} worth of time) "
                           "than it saves ({})",
                           describe(node), bytes_text(again), bytes_text(std::max(saved, 0.0)));
  return worth;
}

Verdict worth_joining(const KernelLoad& load, std::size_t others, const TargetTraits& target) {
  const double launch = target.launch_bytes;
  if (load.bytes > launch)
    return {false, fmt::format("it moves {} by itself, more than a launch is worth ({})",
                               bytes_text(load.bytes), bytes_text(launch))};
  if (load.row_bytes / target.horizontal_limits.block_share > launch * static_cast<double>(others))
    return {false,
            fmt::format("a block alone would take longer for its rows of {} than {} launch{}",
                        bytes_text(load.row_bytes), others, others == 1 ? "" : "es")};
  return {true, fmt::format("{} launch{} saved", others, others == 1 ? "" : "es")};
}

}  // namespace sinter::fusion
