// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: capture, instantiation, replay.
#pragma once

#include <cstddef>
#include <functional>

#include "graphs/stream.h"

namespace sinter::graphs {

/// Nodes of a captured graph by what they do.
struct NodeCounts {
  std::size_t kernels = 0, copies = 0, other = 0;
  std::size_t total() const { return kernels + copies + other; }
};

/// A captured graph before instantiation.
class Graph {
 public:
  /// Captures what `record` puts on `stream`. The mode is thread-local: other threads may allocate
  /// and launch meanwhile. An error of `record` leaves the stream usable. Throws Error(kDevice)
  /// saying that the capture failed and why.
  static Graph capture(ContextPtr context, CUstream stream,
                       const std::function<void(CUstream)>& record);

  NodeCounts count_nodes() const;
  CUgraph handle() const { return handle_.get(); }
  const ContextPtr& context() const { return handle_.context(); }

 private:
  using Handle = Owned<CUgraph, &Driver::graph_destroy>;
  explicit Graph(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

/// An instantiated graph, which one launch replays.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);

  void launch(CUstream stream) const;
  /// Moves the graph to the device, so that the first launch costs what later ones do.
  void upload(CUstream stream) const;
  /// Takes the parameters of `graph`, which must have the same nodes. False: it has others, and
  /// this graph is as before.
  bool update(const Graph& graph);
  /// Nodes at instantiation.
  const NodeCounts& nodes() const { return nodes_; }

 private:
  Owned<CUgraphExec, &Driver::graph_exec_destroy> handle_;
  NodeCounts nodes_;
};

}  // namespace sinter::graphs
