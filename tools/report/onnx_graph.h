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
  std::string name;                  // its first origin or, without origins, its value's name
  std::string op;                    // the model's operator if known, else the IR's operators
  std::string type;                  // type of its last result
  std::vector<std::string> origins;  // several if the compiler merged nodes
  int region = -1;                   // fused node that computes it; -1: not fused
};

struct OnnxGraph {
  std::vector<OnnxNode> nodes;
  std::set<std::pair<int, int>> edges;  // (producer, consumer)
};

/// Adds nodes; IR nodes with equal origins become one node. Bodies of fused nodes and loops are
/// expanded. `operators`: the model's, by node name; may be empty. Fused nodes are numbered from
/// `first_region` on, in the order of `fused_nodes`.
void add_onnx_nodes(const ir::Graph& graph, const std::map<std::string, std::string>& operators,
                    int first_region, OnnxGraph& result);

/// Fused nodes of a graph and its loops' bodies, in order.
std::vector<const ir::Node*> fused_nodes(const ir::Graph& graph);

/// The graphs in a plan's text, one per entry point. Constants stored as a hash become zeros.
/// Throws Error(kInvalidModel).
std::vector<ir::Graph> graphs_of_text(std::string_view text);

}  // namespace sinter::tools
