// SPDX-License-Identifier: Apache-2.0
// The interface of fusion: the ordered passes, and the driver that runs them.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"
#include "fusion/facts.h"

namespace sinter::fusion {

struct Pass {
  std::string_view name;
  Graph (*run)(const Graph& graph, Context& context);
  /// What must have been established in front of it, and what it establishes.
  std::vector<const Fact*> needs = {}, establishes = {};
  bool only_when_fusing = false;  // skipped under --fuse=off
  bool on_bodies = true;          // the driver also runs it on the bodies of loops
  /// Why nothing comes from a node behind it: what --why says.
  std::string_view removes = "what took its place computes the same";
  /// Whether it goes over a model as a whole where that has entry points, with all passes in front
  /// of it; null: never. A graph for each entry is made behind the last that does.
  bool (*of_model)(const Context& context) = nullptr;
};
/// Throws Error(kInternal) if a pass of `passes` needs what none in front of it establishes, or two
/// have one name. Says the pass and the fact.
void check_order(std::span<const Pass> passes);
/// Every pass, in an order that check_order allows.
const std::vector<Pass>& pipeline();

#ifdef NDEBUG
inline constexpr bool kIsDebugBuild = false;
#else
inline constexpr bool kIsDebugBuild = true;
#endif

struct PipelineOptions {
  std::set<std::string> disabled;  // --disable-pass
  std::string stop_after;          // --stop-after
  /// Facts are checked behind the pass that establishes them, and those that last behind every
  /// later one, too. Most checks run the pass once more.
  bool check_facts = kIsDebugBuild;
  /// Called before and after each pass, with its name.
  std::function<void(std::string_view pass, bool after, const Graph&)> observe;
};
struct PassTime {
  std::string name;
  double milliseconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
  bool changed = false;  // false: the graph is as the pass was given it, names aside
};
/// The last pass that goes over a model as a whole, by Pass::of_model.
std::string_view last_pass_of_model(const Context& context);

struct PipelineResult {
  Graph graph;
  std::vector<PassTime> times;
};
/// Runs the pipeline and verifies the graph after every pass. Throws Error(kUsage) for an unknown
/// pass name in the options, and Error(kInternal) for a fact that does not hold.
PipelineResult run_pipeline(const Graph& graph, Context& context,
                            const PipelineOptions& options = {});

/// `graph`, after all passes, with each of `nodes` (indices of fused nodes) replaced by the
/// nodes of its body, every operator its own kernel. Nothing if none has more than one
/// operator.
std::optional<Graph> separate(const Graph& graph, std::span<const std::size_t> nodes);

}  // namespace sinter::fusion
