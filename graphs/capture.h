// SPDX-License-Identifier: Apache-2.0
// The graph that a stream is capturing.
#pragma once

#include <vector>

#include "graphs/driver.h"

namespace sinter::graphs {

/// The graph that a stream is capturing, and the nodes on which the stream's next work depends.
struct Capture {
  CUgraph graph = nullptr;  // null: the stream is not capturing
  std::vector<CUgraphNode> behind;
  std::vector<CUgraphEdgeData> edges;  // empty: ordinary edges

  /// Requires a driver with stream_get_capture_info.
  Capture(const Driver& driver, CUstream stream);
};

/// Adds a node to the graph that `stream` is capturing, after its current work; later work on the
/// stream depends on the node. Requires can_add_to_capture.
void add_node(const Driver& driver, CUstream stream, const Capture& capture,
              CUgraphNodeParams& parameters);

/// Whether the driver (12.3 or later) can add nodes to a graph during its capture.
bool can_add_to_capture(const Driver& driver);

/// The next work on `stream` starts after all earlier work has ended, even if it uses programmatic
/// dependent launch. Libraries may launch so with kernels that do not wait themselves. Requires
/// can_add_to_capture.
void end_overlap(const Driver& driver, CUstream stream);

}  // namespace sinter::graphs
