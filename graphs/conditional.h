// SPDX-License-Identifier: Apache-2.0
// Conditional nodes of CUDA graphs: bodies that run once or repeatedly, controlled by a kernel.
#pragma once

#include <functional>

#include "graphs/device.h"

namespace sinter::graphs {

/// True for drivers of CUDA 12.3 and later.
bool has_conditional_nodes(const Driver& driver);

/// A conditional node in the graph that a stream is capturing. A preceding kernel sets the
/// condition (cudaGraphSetConditional). The body of a while node contains a kernel that sets it
/// again.
class Conditional {
 public:
  /// Kernels take the handle as an argument. `stream` must be capturing.
  Conditional(ContextPtr context, CUstream stream);

  CUgraphConditionalHandle handle() const { return handle_; }
  /// Adds the node after the captured work of `stream`. Its body is the work that `record` puts on
  /// `body_stream`, which must not be capturing. Types: CU_GRAPH_COND_TYPE_IF or
  /// CU_GRAPH_COND_TYPE_WHILE.
  void add(CUgraphConditionalNodeType type, CUstream stream, CUstream body_stream,
           const std::function<void(CUstream)>& record) const;

 private:
  ContextPtr context_;
  CUgraphConditionalHandle handle_ = 0;
};

}  // namespace sinter::graphs
