// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text/sharding_text.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "tools/cli/text/table.h"

namespace sinter::tools {
namespace {

constexpr double kMicroseconds = 1e6;

std::string microseconds(double seconds) { return fmt::format("{:.1f}", seconds * kMicroseconds); }

/// Rows of one kind: nodes of repeated layers.
struct Kind {
  const fusion::ShardedNode* first;
  std::size_t count = 0;
  double bytes = 0, rank_bytes = 0, seconds = 0, rank_seconds = 0;
};

std::vector<Kind> kinds_of(const fusion::ShardingReport& report) {
  std::vector<Kind> kinds;
  std::map<std::string, std::size_t> places;
  for (const fusion::ShardedNode& node : report.nodes) {
    std::string key = node.split + "\n" + node.node;
    std::erase_if(key, [](unsigned char c) { return std::isdigit(c) != 0; });
    const auto [place, is_new] = places.emplace(std::move(key), kinds.size());
    if (is_new) kinds.push_back({&node});
    Kind& kind = kinds[place->second];
    ++kind.count;
    kind.bytes += node.bytes;
    kind.rank_bytes += node.rank_bytes;
    kind.seconds += node.seconds;
    kind.rank_seconds += node.rank_seconds;
  }
  return kinds;
}

}  // namespace

std::vector<std::string> sharding_text(const fusion::ShardingReport& report, std::int64_t ranks) {
  Rows rows{{"layer", "count", "split", "bytes", "of each", "us", "of each"}};
  std::size_t collectives = 0;
  for (const Kind& kind : kinds_of(report)) {
    const bool is_collective = kind.first->is_collective;
    collectives += is_collective ? kind.count : 0;
    rows.push_back({(is_collective ? "behind " : "") + kind.first->node,
                    fmt::format("{}", kind.count), kind.first->split,
                    is_collective ? "" : format_bytes(kind.bytes), format_bytes(kind.rank_bytes),
                    is_collective ? "" : microseconds(kind.seconds),
                    microseconds(kind.rank_seconds)});
  }
  std::vector<std::string> lines{format_table(rows)};
  for (const fusion::ShardedState& state : report.states)
    lines.push_back(
        fmt::format("state {}: each device has its part of dimension {}", state.input, state.axis));
  lines.push_back(fmt::format(
      "{} devices: weights {}, {} on each; a run {} us on one, {} on {}, {} of them in {} "
      "collectives (estimates for symbols of 32)",
      ranks, format_bytes(report.weight_bytes), format_bytes(report.rank_weight_bytes),
      microseconds(report.seconds), microseconds(report.rank_seconds), ranks,
      microseconds(report.collective_seconds), collectives));
  return lines;
}

nlohmann::ordered_json to_json(const fusion::ShardingReport& report, std::int64_t ranks) {
  auto nodes = nlohmann::ordered_json::array();
  for (const fusion::ShardedNode& node : report.nodes)
    nodes.push_back({{"node", node.node},
                     {"origins", node.origins},
                     {"split", node.split},
                     {"collective", node.is_collective},
                     {"bytes", node.bytes},
                     {"bytes_of_each", node.rank_bytes},
                     {"us", node.seconds * kMicroseconds},
                     {"us_of_each", node.rank_seconds * kMicroseconds}});
  auto states = nlohmann::ordered_json::array();
  for (const fusion::ShardedState& state : report.states)
    states.push_back({{"input", state.input}, {"output", state.output}, {"axis", state.axis}});
  return {{"devices", ranks},
          {"nodes", std::move(nodes)},
          {"states", std::move(states)},
          {"weight_bytes", report.weight_bytes},
          {"weight_bytes_of_each", report.rank_weight_bytes},
          {"us", report.seconds * kMicroseconds},
          {"us_of_each", report.rank_seconds * kMicroseconds},
          {"collectives_us", report.collective_seconds * kMicroseconds}};
}

}  // namespace sinter::tools
