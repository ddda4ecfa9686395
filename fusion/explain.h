// Why two ONNX nodes are or are not in one kernel, with what that costs or saves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// What became of an ONNX node, pass by pass.
struct NodeLife {
  struct Change {
    std::string pass;    // "import" for the first
    std::string became;  // "LayerNorm", "Add and MatMul", "a pointwise kernel"
  };
  std::string name;
  std::vector<Change> changes;
  std::string gone_in;  // the pass behind which nothing comes from it; empty: something does
  std::vector<NodeId> kernels;  // of the last graph, where something of it is computed
};

/// Follows nodes by their names in origins: told of each graph as passes make it.
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
  kSeparate,   // data flow from one to the other through memory
  kUnrelated,  // no data flow between them
  kNoKernel,   // one of them is computed by no kernel
};

/// Between two kernels, one of which reads what the other stores.
struct Boundary {
  NodeId from, to;
  std::vector<TensorType> values;
  double read_bytes = 0;            // by `to`
  double stored_bytes = 0;          // of this by `from` for `to` alone
  std::vector<Decision> decisions;  // refusals that made it; the next best reason if there are none
  std::string reason;               // where no pass has tried, or a library or template ends: why
};

/// Bytes are those of a typical shape (symbols count as 32, within their range).
struct Explanation {
  Relation relation = Relation::kUnrelated;
  NodeLife a, b;
  bool from_b_to_a = false;          // which way data flow
  bool side_by_side = false;         // kOneKernel: no data flow between them
  std::vector<NodeId> shared;        // kOneKernel: the kernels that compute something of both
  std::vector<std::string> between;  // kOneKernel: ONNX nodes on the way, which are in it too
  std::vector<Boundary> boundaries;  // kSeparate: on a shortest way from kernel to kernel
  std::vector<Decision> decisions;   // kOneKernel: that brought them and what is between together
  /// What is saved, or (unless kOneKernel) what one kernel of all on the way would save: bytes
  /// stored and read in between, or read by both where nothing flows between them; and launches.
  double bytes = 0;
  double launches = 0;
  double operations = 0;  // scalar operations repeated for it, as far as a decision was about them
  std::vector<LayoutChoice> layouts;  // of what the two compute
};

/// `imported` and `last` are the graphs before the first and behind the last pass.
Explanation explain(const Graph& imported, const Graph& last, const Context& context,
                    const NodeLife& a, const NodeLife& b);

}  // namespace sinter::fusion
