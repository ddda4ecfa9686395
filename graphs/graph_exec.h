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
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&&) = delete;

  NodeCounts count_nodes() const;
  CUgraph handle() const { return handle_; }
  const ContextPtr& context() const { return context_; }

 private:
  Graph(ContextPtr context, CUgraph handle) : context_(std::move(context)), handle_(handle) {}
  ContextPtr context_;
  CUgraph handle_ = nullptr;
};

/// An instantiated graph, which one launch replays.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);
  ~GraphExec();
  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&&) = delete;

  void launch(CUstream stream) const;
  /// Moves the graph to the device, so that the first launch costs what later ones do.
  void upload(CUstream stream) const;
  /// Takes the parameters of `graph`, which must have the same nodes. False: it has others, and
  /// this graph is as before.
  bool update(const Graph& graph);
  /// Nodes at instantiation.
  const NodeCounts& nodes() const { return nodes_; }

 private:
  ContextPtr context_;
  NodeCounts nodes_;
  CUgraphExec handle_ = nullptr;
};

}  // namespace sinter::graphs
