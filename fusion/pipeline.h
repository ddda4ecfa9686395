// The front door of fusion: the passes, in order, and the driver that runs them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"
#include "ir/graph.h"

namespace sinter::fusion {

struct Pass {
  std::string_view name;
  ir::Graph (*run)(const ir::Graph& graph, Context& context);
  bool only_when_fusing = false;  // left out under --fuse=off
  bool on_bodies = true;          // runs on the bodies of loops, too
};
/// Every pass, in order.
const std::vector<Pass>& pipeline();

struct PipelineOptions {
  std::set<std::string> disabled;  // --disable-pass
  std::string stop_after;          // --stop-after
  /// Called with each pass's name, before and after it.
  std::function<void(std::string_view pass, bool after, const ir::Graph&)> observe;
};
struct PassTime {
  std::string name;
  double milliseconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
};
struct PipelineResult {
  ir::Graph graph;
  std::vector<PassTime> times;
};
/// Runs the pipeline; verifies the graph after every pass. Throws Error(kUsage) for an unknown pass
/// name in the options.
PipelineResult run_pipeline(const ir::Graph& graph, Context& context,
                            const PipelineOptions& options = {});

}  // namespace sinter::fusion
