// SPDX-License-Identifier: Apache-2.0
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
      // Ends the capture; otherwise the stream would refuse all further work.
      CUgraph partial = nullptr;
      driver.stream_end_capture.raw(stream, &partial);
      if (partial) driver.graph_destroy.raw(partial);
      throw;
    }
    Handle handle(context);
    const CUresult result = driver.stream_end_capture.raw(stream, handle.put());
    if (result != CUDA_SUCCESS) fail(driver, result, "cuStreamEndCapture");
    if (!handle.get()) throw Error(ErrorCode::kDevice, "cuStreamEndCapture gave no graph");
    return Graph(std::move(handle));
  });
}

NodeCounts Graph::count_nodes() const {
  const Driver& driver = handle_.driver();
  std::size_t count = 0;
  driver.graph_get_nodes(handle(), nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (count > 0) driver.graph_get_nodes(handle(), nodes.data(), &count);
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

GraphExec::GraphExec(const Graph& graph) : handle_(graph.context()), nodes_(graph.count_nodes()) {
  const Context::Scope scope(*handle_.context());
  with_context("instantiating a CUDA graph",
               [&] { handle_.driver().graph_instantiate(handle_.put(), graph.handle(), 0); });
}

void GraphExec::launch(CUstream stream) const {
  handle_.driver().graph_launch(handle_.get(), stream);
}

void GraphExec::upload(CUstream stream) const {
  handle_.driver().graph_upload(handle_.get(), stream);
}

bool GraphExec::update(const Graph& graph) {
  const Context::Scope scope(*handle_.context());
  const Driver& driver = handle_.driver();
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = driver.graph_exec_update.raw(handle_.get(), graph.handle(), &info);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return false;
  fail(driver, result, "cuGraphExecUpdate");
}

}  // namespace sinter::graphs
