// SPDX-License-Identifier: Apache-2.0
// What must hold of an ONNX graph before anything is imported.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

namespace onnx {
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace sinter::frontend {

/// Versions of the ai.onnx operator set that the importer knows.
inline constexpr std::int64_t kMinOpset = 1;
inline constexpr std::int64_t kMaxOpset = 28;

/// True for the two spellings of ONNX's own domain.
bool is_onnx_domain(const std::string& domain);
/// `domain`, or nothing for a spelling of the ai.onnx domain.
std::string plain_domain(const std::string& domain);

/// The node's name, or "<op type>_<index>" for a node without one.
std::string node_label(const onnx::NodeProto& node, int index);

/// Nodes and names of something that can be run: the model's graph, a graph that is an attribute
/// (and may read names of the graphs around it), or a function.
struct Body {
  enum class Kind { kModel, kSubgraph, kFunction };
  Kind kind = Kind::kModel;
  std::vector<const onnx::NodeProto*> nodes;
  std::vector<std::string> inputs, initializers, outputs;
};
Body body_of(const onnx::GraphProto& graph, Body::Kind kind);
Body body_of(const onnx::FunctionProto& function);

/// Versions of operator sets by domain; ai.onnx is "".
using Opsets = std::map<std::string, std::int64_t>;
/// The versions that a model or a function imports. Throws Error(kInvalidModel) if nodes use
/// ai.onnx without an import (and `outer`, the model's, has none) or several versions are imported,
/// kUnsupported if its version is not in kMinOpset..kMaxOpset.
Opsets checked_opsets(const onnx::ModelProto& model);
Opsets checked_opsets(const onnx::FunctionProto& function, const Opsets& outer);

struct GraphStructure {
  std::vector<int> order;                // node indices, every producer before its consumers
  bool was_sorted = true;                // `order` is the file's own order
  std::unordered_set<std::string> used;  // values that a node reads or the graph returns
};

/// Checks names and order. What the graph attributes of a node read from outside counts as read by
/// the node. Throws Error(kInvalidModel) for a model without nodes or outputs, a value name defined
/// twice, an input that nothing defines, and a cycle (naming its nodes). A subgraph may read what
/// it does not define. Nodes that are unsorted but acyclic are sorted: ONNX wants them sorted, but
/// other runtimes are lenient, so such models exist.
GraphStructure check_structure(const Body& body);

}  // namespace sinter::frontend
