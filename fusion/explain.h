// SPDX-License-Identifier: Apache-2.0
// Explains why two ONNX nodes are or are not in one kernel, with costs and savings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// The history of an ONNX node, by pass.
struct NodeLife {
  struct Change {
    std::string pass;    // "import" for the first
    std::string became;  // "LayerNorm", "Add and MatMul", "a pointwise kernel"
  };
  std::string name;
  std::vector<Change> changes;
  std::string gone_in;          // the pass that removed it; empty if it still exists
  std::string gone_because;     // what that means
  std::vector<NodeId> kernels;  // kernels of the last graph that compute parts of it
};

/// Follows nodes by name in origins; after() is called for each pass's graph.
class Trace {
 public:
  Trace(std::vector<std::string> names, const Graph& imported);
  void after(std::string_view pass, const Graph& graph);
  /// In the order of the names.
  const std::vector<NodeLife>& lives() const { return lives_; }

 private:
  std::vector<NodeLife> lives_;
};

enum class Relation {
  kOneKernel,
  kSeparate,   // data flows from one to the other through memory
  kUnrelated,  // no data flow between them
  kNoKernel,   // no kernel computes one of them
};

/// Between two kernels: `to` reads what `from` stores.
struct Boundary {
  NodeId from, to;
  std::vector<TensorType> values;
  double read_bytes = 0;            // by `to`
  double stored_bytes = 0;          // by `from`, only for `to`
  std::vector<Decision> decisions;  // refusals that caused it; if none, the next best reason
  std::string reason;               // if no pass tried, or a library call or template ends there
};

/// Bytes are for a typical shape (symbols are 32, clamped to their range).
struct Explanation {
  Relation relation = Relation::kUnrelated;
  NodeLife a, b;
  bool from_b_to_a = false;          // direction of data flow
  bool side_by_side = false;         // kOneKernel: no data flow between them
  std::vector<NodeId> shared;        // kOneKernel: kernels that compute parts of both
  std::vector<std::string> between;  // kOneKernel: ONNX nodes on the path, which are in it too
  std::vector<Boundary> boundaries;  // kSeparate: on a shortest path of kernels
  std::vector<Decision> decisions;   // kOneKernel: that fused both and the nodes between them
  /// Savings, or (unless kOneKernel) what one kernel of the whole path would save. Bytes stored and
  /// read in between, or read by both if no data flows between them; and launches.
  double bytes = 0;
  double launches = 0;
  double operations = 0;              // repeated scalar operations, if a decision considered them
  std::vector<LayoutChoice> layouts;  // of values that the two compute
};

/// `imported` and `last` are the graphs before the first pass and after the last.
Explanation explain(const Graph& imported, const Graph& last, const Context& context,
                    const NodeLife& a, const NodeLife& b);

}  // namespace sinter::fusion
