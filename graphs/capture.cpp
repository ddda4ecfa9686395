// SPDX-License-Identifier: Apache-2.0
#include "graphs/capture.h"

namespace sinter::graphs {

Capture::Capture(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* data = nullptr;
  std::size_t count = 0;
  driver.stream_get_capture_info(stream, &status, &id, &graph, &nodes, &data, &count);
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) graph = nullptr;
  if (graph == nullptr || count == 0) return;
  behind.assign(nodes, nodes + count);
  if (data) edges.assign(data, data + count);
}

void add_node(const Driver& driver, CUstream stream, const Capture& capture,
              CUgraphNodeParams& parameters) {
  CUgraphNode node = nullptr;
  driver.graph_add_node(&node, capture.graph, capture.behind.data(),
                        capture.edges.empty() ? nullptr : capture.edges.data(),
                        capture.behind.size(), &parameters);
  driver.stream_update_capture_dependencies(stream, &node, nullptr, 1,
                                            CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

bool can_add_to_capture(const Driver& driver) {
  return driver.stream_get_capture_info && driver.stream_update_capture_dependencies &&
         driver.graph_add_node;
}

void end_overlap(const Driver& driver, CUstream stream) {
  const Capture capture(driver, stream);
  if (capture.graph == nullptr) {
    // Programmatic overlap requires two adjacent kernels: an event record between them prevents it.
    CUevent event = nullptr;
    driver.event_create(&event, CU_EVENT_DISABLE_TIMING);
    driver.event_record(event, stream);
    driver.event_destroy(event);
    return;
  }
  if (capture.behind.empty()) return;
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_EMPTY;
  add_node(driver, stream, capture, parameters);
}

}  // namespace sinter::graphs
