// SPDX-License-Identifier: Apache-2.0
// Captures and graphs of the fake driver: lists of closures.
#include <algorithm>
#include <utility>

#include "tests/graphs/fake_entries.h"

namespace sinter::testing {
namespace {

CUresult stream_begin_capture(CUstream stream, CUstreamCaptureMode mode) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2");
  if (!stream || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
  if (stream_of(stream).capturing) return CUDA_ERROR_ILLEGAL_STATE;
  ++fake().graphs;
  stream_of(stream) = FakeStream{new FakeGraph};
  return CUDA_SUCCESS;
}
CUresult stream_end_capture(CUstream stream, CUgraph* graph) {
  const std::lock_guard lock(fake().mutex);
  *graph = nullptr;
  FakeGraph* captured = std::exchange(stream_of(stream).capturing, nullptr);
  if (!captured) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream_of(stream).is_body) {
    *graph = reinterpret_cast<CUgraph>(captured);
    return CUDA_SUCCESS;
  }
  CUresult failed = fake().enter("cuStreamEndCapture");
  for (FakeStream* other : all_streams) {
    if (other->capturing != captured) continue;
    other->capturing = nullptr;
    if (other->awaited < other->nodes) failed = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (stream_of(stream).invalidated) failed = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (failed) {
    --fake().graphs;
    delete captured;
    return failed;
  }
  *graph = reinterpret_cast<CUgraph>(captured);
  return CUDA_SUCCESS;
}

CUresult stream_get_capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                 CUgraph* graph, const CUgraphNode** nodes,
                                 const CUgraphEdgeData** edges, std::size_t* count) {
  ENTER_CONTEXT("cuStreamGetCaptureInfo_v3");
  FakeGraph* capturing = stream_of(stream).capturing;
  *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  *id = 1;
  *graph = reinterpret_cast<CUgraph>(capturing);
  static CUgraphNode last;
  last = capturing && !capturing->nodes.empty()
             ? reinterpret_cast<CUgraphNode>(capturing->nodes.back().get())
             : nullptr;
  *nodes = &last;
  *edges = nullptr;
  *count = last ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult stream_update_dependencies(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData*,
                                    std::size_t count, unsigned flags) {
  ENTER_CONTEXT("cuStreamUpdateCaptureDependencies_v2");
  const FakeGraph* capturing = stream_of(stream).capturing;
  if (!capturing || flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES || count != 1 ||
      *nodes != reinterpret_cast<CUgraphNode>(capturing->nodes.back().get()))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
CUresult stream_begin_capture_to_graph(CUstream stream, CUgraph graph, const CUgraphNode*,
                                       const CUgraphEdgeData*, std::size_t count,
                                       CUstreamCaptureMode mode) {
  ENTER_CONTEXT("cuStreamBeginCaptureToGraph");
  if (!stream || !graph || count != 0 || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream_of(stream).capturing) return CUDA_ERROR_ILLEGAL_STATE;
  stream_of(stream) = FakeStream{reinterpret_cast<FakeGraph*>(graph)};
  stream_of(stream).is_body = true;
  return CUDA_SUCCESS;
}
CUresult conditional_handle_create(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext,
                                   unsigned launch_value, unsigned) {
  ENTER_CONTEXT("cuGraphConditionalHandleCreate");
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *handle = fake().conditions.size() + 1;
  fake().conditions[*handle] = launch_value;
  return CUDA_SUCCESS;
}
CUresult graph_add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode*,
                        const CUgraphEdgeData*, std::size_t, CUgraphNodeParams* parameters) {
  ENTER_CONTEXT("cuGraphAddNode_v2");
  auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  if (parameters->type == CU_GRAPH_NODE_TYPE_EMPTY) {
    nodes.push_back(std::make_unique<Node>(Node{parameters->type, [] {}}));
    *node = reinterpret_cast<CUgraphNode>(nodes.back().get());
    return CUDA_SUCCESS;
  }
  CUDA_CONDITIONAL_NODE_PARAMS& conditional = parameters->conditional;
  if (parameters->type != CU_GRAPH_NODE_TYPE_CONDITIONAL || conditional.size != 1 ||
      !fake().conditions.contains(conditional.handle))
    return CUDA_ERROR_INVALID_VALUE;
  struct Body {
    FakeGraph graph;
    CUgraph handle = nullptr;
  };
  auto body = std::make_shared<Body>();
  body->handle = reinterpret_cast<CUgraph>(&body->graph);
  conditional.phGraph_out = &body->handle;
  const auto work = [body, handle = conditional.handle, type = conditional.type] {
    while (fake().conditions[handle] != 0) {
      for (const auto& inner : body->graph.nodes) inner->work();
      if (type == CU_GRAPH_COND_TYPE_IF) return;
    }
  };
  nodes.push_back(std::make_unique<Node>(Node{parameters->type, work}));
  *node = reinterpret_cast<CUgraphNode>(nodes.back().get());
  return CUDA_SUCCESS;
}

CUresult graph_instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  ++fake().execs;
  auto made = std::make_unique<FakeExec>();
  for (const auto& node : reinterpret_cast<FakeGraph*>(graph)->nodes) made->nodes.push_back(*node);
  *exec = reinterpret_cast<CUgraphExec>(made.release());
  return CUDA_SUCCESS;
}
CUresult graph_destroy(CUgraph graph) {
  ENTER("cuGraphDestroy");
  --fake().graphs;
  delete reinterpret_cast<FakeGraph*>(graph);
  return CUDA_SUCCESS;
}
CUresult graph_get_nodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  ENTER("cuGraphGetNodes");
  const auto& all = reinterpret_cast<FakeGraph*>(graph)->nodes;
  if (nodes)
    for (std::size_t i = 0; i < *count && i < all.size(); ++i)
      nodes[i] = reinterpret_cast<CUgraphNode>(all[i].get());
  *count = all.size();
  return CUDA_SUCCESS;
}
CUresult graph_node_get_type(CUgraphNode node, CUgraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return CUDA_SUCCESS;
}
CUresult graph_launch(CUgraphExec exec, CUstream stream) {
  ENTER_CONTEXT("cuGraphLaunch");
  for (const Node& node : reinterpret_cast<FakeExec*>(exec)->nodes)
    fake().put(stream, node.type, node.work);
  return CUDA_SUCCESS;
}
CUresult graph_upload(CUgraphExec, CUstream) {
  ENTER_CONTEXT("cuGraphUpload");
  return CUDA_SUCCESS;
}
CUresult graph_exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo*) {
  ENTER_CONTEXT("cuGraphExecUpdate_v2");
  auto& mine = reinterpret_cast<FakeExec*>(exec)->nodes;
  const auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  if (mine.size() != nodes.size()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = *nodes[i];
  return CUDA_SUCCESS;
}
CUresult graph_exec_destroy(CUgraphExec exec) {
  ENTER_CONTEXT("cuGraphExecDestroy");
  --fake().execs;
  delete reinterpret_cast<FakeExec*>(exec);
  return CUDA_SUCCESS;
}

}  // namespace

EntryPoints graph_entries() {
  return {
      entry("cuStreamBeginCapture_v2", stream_begin_capture),
      entry("cuStreamEndCapture", stream_end_capture),
      entry("cuGraphInstantiateWithFlags", graph_instantiate),
      entry("cuGraphDestroy", graph_destroy),
      entry("cuGraphGetNodes", graph_get_nodes),
      entry("cuGraphNodeGetType", graph_node_get_type),
      entry("cuGraphLaunch", graph_launch),
      entry("cuGraphUpload", graph_upload),
      entry("cuGraphExecUpdate_v2", graph_exec_update),
      entry("cuGraphExecDestroy", graph_exec_destroy),
      entry("cuStreamGetCaptureInfo_v3", stream_get_capture_info),
      entry("cuStreamUpdateCaptureDependencies_v2", stream_update_dependencies),
      entry("cuStreamBeginCaptureToGraph", stream_begin_capture_to_graph),
      entry("cuGraphConditionalHandleCreate", conditional_handle_create),
      entry("cuGraphAddNode_v2", graph_add_node),
  };
}

}  // namespace sinter::testing
