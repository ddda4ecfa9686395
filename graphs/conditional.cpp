// SPDX-License-Identifier: Apache-2.0
#include "graphs/conditional.h"

#include <utility>

#include "graphs/capture.h"

namespace sinter::graphs {
namespace {

Capture capture_on(const Driver& driver, CUstream stream) {
  Capture capture(driver, stream);
  if (capture.graph == nullptr)
    throw Error(ErrorCode::kInternal, "a conditional node outside of a capture");
  return capture;
}

}  // namespace

bool has_conditional_nodes(const Driver& driver) {
  return can_add_to_capture(driver) && driver.stream_begin_capture_to_graph &&
         driver.graph_conditional_handle_create;
}

Conditional::Conditional(ContextPtr context, CUstream stream) : context_(std::move(context)) {
  const Driver& driver = context_->driver();
  const Capture capture = capture_on(driver, stream);
  // The default value is 0: the body runs only if a kernel sets the condition.
  driver.graph_conditional_handle_create(&handle_, capture.graph, context_->handle(), 0, 0);
}

void Conditional::add(CUgraphConditionalNodeType type, CUstream stream, CUstream body_stream,
                      const std::function<void(CUstream)>& record) const {
  const Driver& driver = context_->driver();
  const Capture capture = capture_on(driver, stream);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle_;
  parameters.conditional.type = type;
  parameters.conditional.size = 1;
  parameters.conditional.ctx = context_->handle();
  add_node(driver, stream, capture, parameters);
  driver.stream_begin_capture_to_graph(body_stream, parameters.conditional.phGraph_out[0], nullptr,
                                       nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUgraph body = nullptr;  // owned by the node
  try {
    record(body_stream);
  } catch (...) {
    // Ends the capture; otherwise the stream would refuse all further work.
    driver.stream_end_capture.raw(body_stream, &body);
    throw;
  }
  driver.stream_end_capture(body_stream, &body);
}

}  // namespace sinter::graphs
