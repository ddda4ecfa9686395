// SPDX-License-Identifier: Apache-2.0
// The ONNX nodes of a model and what flows between them, from the compiler's graphs of it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace sinter::tools {

struct OnnxNode {
  std::string name;  // the first of its origins; of a node without any, its value's name
  std::string op;    // the model's where it is known, else the operators of the IR
  std::string type;  // of its last result
  std::vector<std::string> origins;  // several where the compiler merged nodes
  int region = -1;                   // the fused node that computes it; -1: not fused yet
};

struct OnnxGraph {
  std::vector<OnnxNode> nodes;
  std::set<std::pair<int, int>> edges;  // from producer to consumer
};

/// Nodes of the IR that come from the same ONNX nodes are one node here. Bodies of fused nodes and
/// loops are opened. `operators`: of the model, by name of the node; may be empty. Fused nodes are
/// numbered on from `first_region` in the order of `fused_nodes`.
void add_onnx_nodes(const ir::Graph& graph, const std::map<std::string, std::string>& operators,
                    int first_region, OnnxGraph& result);

/// The fused nodes of a graph and of the bodies of its loops, in order.
std::vector<const ir::Node*> fused_nodes(const ir::Graph& graph);

/// The graphs in a plan's text, one for each entry point. Constants that the text has only a hash
/// of have zeros. Throws Error(kInvalidModel).
std::vector<ir::Graph> graphs_of_text(std::string_view text);

}  // namespace sinter::tools
