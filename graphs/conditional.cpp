#include "graphs/conditional.h"

#include <utility>
#include <vector>

namespace sinter::graphs {
namespace {

/// The graph that a stream is capturing, and the nodes that what comes next starts behind.
struct Capture {
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> behind;
  std::vector<CUgraphEdgeData> edges;  // none: plain ones

  Capture(const Driver& driver, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    const CUgraphNode* nodes = nullptr;
    const CUgraphEdgeData* data = nullptr;
    std::size_t count = 0;
    driver.stream_get_capture_info(stream, &status, &id, &graph, &nodes, &data, &count);
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
      throw Error(ErrorCode::kInternal, "a conditional node outside of a capture");
    if (count == 0) return;
    behind.assign(nodes, nodes + count);
    if (data) edges.assign(data, data + count);
  }
};

}  // namespace

bool has_conditional_nodes(const Driver& driver) {
  return driver.stream_get_capture_info && driver.stream_update_capture_dependencies &&
         driver.stream_begin_capture_to_graph && driver.graph_conditional_handle_create &&
         driver.graph_add_node;
}

Conditional::Conditional(ContextPtr context, CUstream stream) : context_(std::move(context)) {
  const Driver& driver = context_->driver();
  const Capture capture(driver, stream);
  // Without a kernel that sets it the body would not be run.
  driver.graph_conditional_handle_create(&handle_, capture.graph, context_->handle(), 0, 0);
}

void Conditional::add(CUgraphConditionalNodeType type, CUstream stream, CUstream body_stream,
                      const std::function<void(CUstream)>& record) const {
  const Driver& driver = context_->driver();
  Capture capture(driver, stream);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle_;
  parameters.conditional.type = type;
  parameters.conditional.size = 1;
  parameters.conditional.ctx = context_->handle();
  CUgraphNode node = nullptr;
  driver.graph_add_node(&node, capture.graph, capture.behind.data(),
                        capture.edges.empty() ? nullptr : capture.edges.data(),
                        capture.behind.size(), &parameters);
  driver.stream_update_capture_dependencies(stream, &node, nullptr, 1,
                                            CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  driver.stream_begin_capture_to_graph(body_stream, parameters.conditional.phGraph_out[0], nullptr,
                                       nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUgraph body = nullptr;  // the node's own
  try {
    record(body_stream);
  } catch (...) {
    // Ends the capture; the stream would refuse all work otherwise.
    driver.stream_end_capture.raw(body_stream, &body);
    throw;
  }
  driver.stream_end_capture(body_stream, &body);
}

}  // namespace sinter::graphs
