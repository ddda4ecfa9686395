// SPDX-License-Identifier: Apache-2.0
// What a stream is capturing.
#pragma once

#include <vector>

#include "graphs/driver.h"

namespace sinter::graphs {

/// The graph that a stream is capturing, and the nodes that what comes next starts behind.
struct Capture {
  CUgraph graph = nullptr;  // null: the stream captures nothing
  std::vector<CUgraphNode> behind;
  std::vector<CUgraphEdgeData> edges;  // none: plain ones

  /// The driver has stream_get_capture_info.
  Capture(const Driver& driver, CUstream stream);
};

/// Puts a node into what `stream` is capturing, behind what is there; what comes next on the stream
/// starts behind the node. The driver can_add_to_capture.
void add_node(const Driver& driver, CUstream stream, const Capture& capture,
              CUgraphNodeParams& parameters);

/// Whether the driver (12.3 and later) can put nodes of our own into what a stream is capturing.
bool can_add_to_capture(const Driver& driver);

/// What is put on `stream` next starts when all in front of it has ended, even if it is launched
/// programmatically, as libraries may do with kernels that do not wait themselves. The driver
/// can_add_to_capture.
void end_overlap(const Driver& driver, CUstream stream);

}  // namespace sinter::graphs
