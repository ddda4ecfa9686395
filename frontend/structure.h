// What must hold of an ONNX graph before anything is imported.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace sinter::frontend {

/// Versions of the ai.onnx operator set that the importer knows.
inline constexpr std::int64_t kMinOpset = 7;
inline constexpr std::int64_t kMaxOpset = 24;

/// True for the two spellings of ONNX's own domain.
bool is_onnx_domain(const std::string& domain);

/// The node's name, or "<op type>_<index>" for a node without one.
std::string node_label(const onnx::NodeProto& node, int index);

/// The model's version of ai.onnx; zero if it uses other domains only. Throws Error(kInvalidModel)
/// if nodes use it without an import or several versions are imported, kUnsupported if it is not in
/// kMinOpset..kMaxOpset.
std::int64_t checked_opset(const onnx::ModelProto& model);

struct GraphStructure {
  std::vector<int> order;                // node indices, every producer before its consumers
  bool was_sorted = true;                // `order` is the file's own order
  std::unordered_set<std::string> used;  // values that a node reads or the graph returns
};

/// Checks names and order. Throws Error(kInvalidModel) for a graph without nodes or outputs, a
/// value name defined twice, an input that nothing defines, and a cycle (naming its nodes). Nodes
/// that are unsorted but acyclic are sorted: ONNX wants them sorted, but other runtimes are
/// lenient, so such models exist.
GraphStructure check_structure(const onnx::GraphProto& graph);

}  // namespace sinter::frontend
