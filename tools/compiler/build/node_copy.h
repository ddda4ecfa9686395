// SPDX-License-Identifier: Apache-2.0
// Nodes of one graph in another, with other values in place of its inputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::tools {

class NodeCopier {
 public:
  /// Both outlive it.
  NodeCopier(ir::GraphBuilder& builder, const ir::Graph& graph);

  /// `value` of the new graph takes the place of `input`; symbols of its shape those of the input.
  /// False if types or shapes differ otherwise.
  bool feed(ir::ValueId input, ir::ValueId value);
  bool is_fed(ir::ValueId input) const { return mapped_[input.position()].valid(); }
  void copy(const ir::Node& node);
  /// What a value that was fed or copied, or a constant, has become.
  ir::ValueId map(ir::ValueId value);

 private:
  ir::GraphBuilder& builder_;
  const ir::Graph& graph_;
  std::vector<ir::ValueId> mapped_;
  std::map<std::string, ir::Dim, std::less<>> sizes_;
};

}  // namespace sinter::tools
