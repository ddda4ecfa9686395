// SPDX-License-Identifier: Apache-2.0
#include "tools/report/onnx_graph.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include "ir/text/text.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

using ir::Graph;
using ir::Node;
using ir::OpKind;
using ir::ValueId;

class Collector {
 public:
  Collector(const std::map<std::string, std::string>& operators, int first_region,
            OnnxGraph& result)
      : operators_(operators), next_region_(first_region), result_(result) {
    for (std::size_t i = 0; i < result.nodes.size(); ++i)
      places_.emplace(key_of(result.nodes[i].origins), static_cast<int>(i));
  }

  /// `makers`: producer nodes of the graph's inputs. Returns those of its outputs.
  std::vector<int> add(const Graph& graph, const std::vector<int>& makers, int region) {
    std::vector<int> of(graph.values().size(), -1);
    for (std::size_t i = 0; i < graph.inputs().size() && i < makers.size(); ++i)
      of[graph.inputs()[i].position()] = makers[i];
    for (const Node& node : graph.nodes()) {
      std::vector<int> sources;
      for (const ValueId input : node.inputs) sources.push_back(of[input.position()]);
      if (node.op->kind == OpKind::kFused && node.body) {
        // A nested fused node, as in a horizontal kernel, belongs to the outer kernel.
        const int inner = region >= 0 ? region : next_region_++;
        const std::vector<int> results = add(*node.body, sources, inner);
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
          of[node.outputs[i].position()] = results[i];
        continue;
      }
      const int place = add_node(graph, node, region);
      for (const int source : sources) connect(source, place);
      for (const ValueId output : node.outputs) of[output.position()] = place;
      // Nodes of a loop's body become children of the loop.
      if (node.body) add(*node.body, std::vector<int>(node.body->inputs().size(), place), region);
    }
    std::vector<int> results;
    for (const ValueId output : graph.outputs()) results.push_back(of[output.position()]);
    return results;
  }

 private:
  static std::string key_of(const std::vector<std::string>& origins) {
    return fmt::format("{}", fmt::join(origins, "\n"));
  }

  int add_node(const Graph& graph, const Node& node, int region) {
    const std::string type = ir::to_string(graph.type(node.outputs.back()));
    const auto next = static_cast<int>(result_.nodes.size());
    if (!node.origins.empty()) {
      // Several kernels may compute parts of one ONNX node.
      const auto [found, is_new] = places_.emplace(
          region < 0 ? key_of(node.origins) : fmt::format("{}\n{}", key_of(node.origins), region),
          next);
      if (!is_new) {
        OnnxNode& known = result_.nodes[static_cast<std::size_t>(found->second)];
        known.type = type;
        add_operator(node, known);
        return found->second;
      }
    }
    OnnxNode added;
    added.origins = node.origins;
    added.type = type;
    added.region = region;
    added.name =
        !node.origins.empty() ? node.origins.front() : graph.value(node.outputs.front()).name;
    if (added.name.empty()) added.name = fmt::format("{}_{}", node.op->name, next);
    const auto op = operators_.find(added.name);
    if (op != operators_.end()) added.op = op->second;
    add_operator(node, added);
    result_.nodes.push_back(std::move(added));
    return next;
  }

  /// Appends the first IR operators of a node whose ONNX operator is unknown.
  void add_operator(const Node& node, OnnxNode& of) const {
    constexpr std::size_t kLongest = 40;
    if (operators_.contains(of.name) || of.op.find(node.op->name) != std::string::npos) return;
    if (of.op.size() > kLongest) return;
    of.op += (of.op.empty() ? "" : ", ") + std::string(node.op->name);
  }

  void connect(int from, int to) {
    if (from >= 0 && from != to) result_.edges.emplace(from, to);
  }

  const std::map<std::string, std::string>& operators_;
  int next_region_;
  OnnxGraph& result_;
  std::map<std::string, int> places_;
};

/// `size` zero bytes, which use no physical memory.
std::shared_ptr<const void> zeros(std::size_t size) {
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw Error(ErrorCode::kOutOfMemory, "out of host memory");
  return {mapped, [size](void* p) { munmap(p, size); }};
}

/// Zeros for all constants that `text` stores as a hash.
ir::ConstantPool pool_of_zeros(std::string_view text) {
  struct Wanted {
    DType dtype;
    ir::Ints shape;
    std::size_t bytes;
  };
  std::map<std::uint64_t, Wanted> wanted;
  std::size_t most = 1;
  constexpr std::string_view kStart = " = const ";
  for (std::size_t at = text.find(kStart); at != std::string_view::npos;
       at = text.find(kStart, at + 1)) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    const std::size_t open = line.find('['), close = line.find("] #");
    if (open == std::string_view::npos || close == std::string_view::npos) continue;
    Wanted one{};
    const auto dtype = dtype_from_string(line.substr(kStart.size(), open - kStart.size()));
    if (!dtype) continue;
    one.dtype = *dtype;
    one.bytes = size_of(*dtype);
    for (std::size_t i = open + 1; i < close;) {
      std::int64_t dim = 0;
      while (i < close && std::isdigit(static_cast<unsigned char>(line[i])) != 0)
        dim = 10 * dim + (line[i++] - '0');
      one.shape.push_back(dim);
      one.bytes *= static_cast<std::size_t>(dim);
      while (i < close && std::isdigit(static_cast<unsigned char>(line[i])) == 0) ++i;
    }
    most = std::max(most, one.bytes);
    wanted.emplace(std::strtoull(std::string(line.substr(close + 3, 16)).c_str(), nullptr, 16),
                   std::move(one));
  }
  const std::shared_ptr<const void> shared = zeros(most);
  ir::ConstantPool pool;
  for (const auto& [hash, one] : wanted)
    pool.emplace(hash, std::make_shared<ir::Tensor>(
                           one.dtype, one.shape,
                           ir::Buffer::borrow(
                               {static_cast<const std::byte*>(shared.get()), one.bytes}, shared)));
  return pool;
}

}  // namespace

void add_onnx_nodes(const Graph& graph, const std::map<std::string, std::string>& operators,
                    int first_region, OnnxGraph& result) {
  Collector(operators, first_region, result).add(graph, {}, -1);
}

std::vector<const Node*> fused_nodes(const Graph& graph) {
  std::vector<const Node*> all;
  for (const Node& node : graph.nodes()) {
    if (!node.body) continue;
    if (node.op->kind == OpKind::kFused) {
      all.push_back(&node);
    } else {
      const auto inner = fused_nodes(*node.body);
      all.insert(all.end(), inner.begin(), inner.end());
    }
  }
  return all;
}

std::vector<Graph> graphs_of_text(std::string_view text) {
  const ir::ConstantPool pool = pool_of_zeros(text);
  std::vector<Graph> graphs;
  // A graph starts on its own line; nothing else starts so.
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = text.find("\ngraph @", at);
    const std::size_t end = next == std::string_view::npos ? text.size() : next + 1;
    graphs.push_back(ir::parse_graph(text.substr(at, end - at), pool));
    at = end;
  }
  return graphs;
}

}  // namespace sinter::tools
