// SPDX-License-Identifier: Apache-2.0
// Conditional nodes of CUDA graphs: bodies that the GPU runs, or runs again, as a kernel says.
#pragma once

#include <functional>

#include "graphs/device.h"

namespace sinter::graphs {

/// Drivers for CUDA 12.3 and later have them.
bool has_conditional_nodes(const Driver& driver);

/// A node of the graph that a stream is capturing. A kernel in front of it sets whether the body is
/// run (cudaGraphSetConditional); in a body that is run while that holds, one sets it again.
class Conditional {
 public:
  /// The handle is an argument of the kernels. `stream` must be capturing.
  Conditional(ContextPtr context, CUstream stream);

  CUgraphConditionalHandle handle() const { return handle_; }
  /// Adds the node behind what `stream` has captured; its body is what `record` puts on
  /// `body_stream`, which must not be capturing. CU_GRAPH_COND_TYPE_IF or CU_GRAPH_COND_TYPE_WHILE.
  void add(CUgraphConditionalNodeType type, CUstream stream, CUstream body_stream,
           const std::function<void(CUstream)>& record) const;

 private:
  ContextPtr context_;
  CUgraphConditionalHandle handle_ = 0;
};

}  // namespace sinter::graphs
