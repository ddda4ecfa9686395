// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: capture, instantiation, replay.
#pragma once

#include <cstddef>
#include <functional>

#include "graphs/stream.h"

namespace sinter::graphs {

/// Number of nodes in a captured graph, by kind.
struct NodeCounts {
  std::size_t kernels = 0, copies = 0, other = 0;
  std::size_t total() const { return kernels + copies + other; }
};

/// A captured graph before instantiation.
class Graph {
 public:
  /// Captures the work that `record` puts on `stream`. Thread-local mode: other threads may
  /// allocate and launch meanwhile. An error of `record` leaves the stream usable. Throws
  /// Error(kDevice) with the reason if the capture fails.
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

/// An instantiated graph, replayed by a single launch.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);

  void launch(CUstream stream) const;
  /// Uploads the graph to the device, so that the first launch is as fast as later ones.
  void upload(CUstream stream) const;
  /// Takes over the parameters of `graph`. False if its nodes differ; this graph is then unchanged.
  bool update(const Graph& graph);
  /// Number of nodes at instantiation.
  const NodeCounts& nodes() const { return nodes_; }

 private:
  Owned<CUgraphExec, &Driver::graph_exec_destroy> handle_;
  NodeCounts nodes_;
};

}  // namespace sinter::graphs
