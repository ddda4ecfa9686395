#include "graphs/graph_exec.h"

#include <utility>
#include <vector>

namespace sinter::graphs {

Graph Graph::capture(ContextPtr context, CUstream stream,
                     const std::function<void(CUstream)>& record) {
  const Context::Scope scope(*context);
  const Driver& driver = context->driver();
  return with_context("capturing a CUDA graph", [&] {
    driver.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    try {
      record(stream);
    } catch (...) {
      // Ends the capture; the stream would refuse all work otherwise.
      CUgraph partial = nullptr;
      driver.stream_end_capture.raw(stream, &partial);
      if (partial) driver.graph_destroy.raw(partial);
      throw;
    }
    CUgraph handle = nullptr;
    const CUresult result = driver.stream_end_capture.raw(stream, &handle);
    if (result != CUDA_SUCCESS) {
      if (handle) driver.graph_destroy.raw(handle);
      fail(driver, result, "cuStreamEndCapture");
    }
    if (!handle) throw Error(ErrorCode::kDevice, "cuStreamEndCapture gave no graph");
    return Graph(std::move(context), handle);
  });
}

Graph::~Graph() {
  if (!handle_) return;
  const auto scope = context_->scope_nothrow();
  context_->driver().graph_destroy.raw(handle_);
}

Graph::Graph(Graph&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

NodeCounts Graph::count_nodes() const {
  const Driver& driver = context_->driver();
  std::size_t count = 0;
  driver.graph_get_nodes(handle_, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (count > 0) driver.graph_get_nodes(handle_, nodes.data(), &count);
  NodeCounts counts;
  for (std::size_t i = 0; i < count && i < nodes.size(); ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    driver.graph_node_get_type(nodes[i], &type);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL)
      ++counts.kernels;
    else if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
      ++counts.copies;
    else
      ++counts.other;
  }
  return counts;
}

GraphExec::GraphExec(const Graph& graph) : context_(graph.context()), nodes_(graph.count_nodes()) {
  const Context::Scope scope(*context_);
  with_context("instantiating a CUDA graph",
               [&] { context_->driver().graph_instantiate(&handle_, graph.handle(), 0); });
}

GraphExec::~GraphExec() {
  if (!handle_) return;
  const auto scope = context_->scope_nothrow();
  context_->driver().graph_exec_destroy.raw(handle_);
}

GraphExec::GraphExec(GraphExec&& other) noexcept
    : context_(std::move(other.context_)),
      nodes_(other.nodes_),
      handle_(std::exchange(other.handle_, nullptr)) {}

void GraphExec::launch(CUstream stream) const { context_->driver().graph_launch(handle_, stream); }

void GraphExec::upload(CUstream stream) const { context_->driver().graph_upload(handle_, stream); }

bool GraphExec::update(const Graph& graph) {
  const Context::Scope scope(*context_);
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = context_->driver().graph_exec_update.raw(handle_, graph.handle(), &info);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return false;
  fail(context_->driver(), result, "cuGraphExecUpdate");
}

}  // namespace sinter::graphs
