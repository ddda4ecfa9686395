// SPDX-License-Identifier: Apache-2.0
// Checks the structure of an ONNX graph before the import.
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

/// Supported versions of the ai.onnx operator set.
inline constexpr std::int64_t kMinOpset = 1;
inline constexpr std::int64_t kMaxOpset = 28;

/// True for the two spellings of ONNX's own domain.
bool is_onnx_domain(const std::string& domain);
/// `domain`, or "" for both spellings of the ai.onnx domain.
std::string plain_domain(const std::string& domain);

/// The node's name, or "<op type>_<index>" for a node without one.
std::string node_label(const onnx::NodeProto& node, int index);

/// Nodes and names of an executable body: the model's graph, a graph attribute (which may read
/// names of enclosing graphs), or a function.
struct Body {
  enum class Kind { kModel, kSubgraph, kFunction };
  Kind kind = Kind::kModel;
  std::vector<const onnx::NodeProto*> nodes;
  std::vector<std::string> inputs, initializers, outputs;
};
Body body_of(const onnx::GraphProto& graph, Body::Kind kind);
Body body_of(const onnx::FunctionProto& function);

/// Operator set versions by domain; ai.onnx is "".
using Opsets = std::map<std::string, std::int64_t>;
/// The versions that a model or function imports. Throws Error(kInvalidModel) if several versions
/// are imported, or if nodes use ai.onnx without an import (and `outer`, the model's, has none).
/// Throws kUnsupported for a version outside kMinOpset..kMaxOpset.
Opsets checked_opsets(const onnx::ModelProto& model);
Opsets checked_opsets(const onnx::FunctionProto& function, const Opsets& outer);

struct GraphStructure {
  std::vector<int> order;                // node indices, producers before consumers
  bool was_sorted = true;                // `order` is the file's own order
  std::unordered_set<std::string> used;  // values that a node reads or the graph returns
};

/// Checks names and order. A node also reads what its graph attributes capture. Throws
/// Error(kInvalidModel) for a model without nodes or outputs, a value defined twice, an undefined
/// input, and a cycle (naming its nodes). A subgraph may read names that it does not define. Sorts
/// unsorted acyclic nodes: ONNX requires sorted ones, but other runtimes accept such models.
GraphStructure check_structure(const Body& body);

}  // namespace sinter::frontend
