// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/inspect/why.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "fusion/regions/rebuild.h"
#include "ir/text/similar.h"
#include "ir/text/text.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

using fusion::Boundary;
using fusion::Decision;
using fusion::NodeLife;
using fusion::Relation;
using nlohmann::ordered_json;

/// Operators of the model, by node name.
std::map<std::string, std::string> known_nodes(const frontend::ImportedModel& model) {
  std::map<std::string, std::string> known;
  for (const auto& node : model.nodes) known.emplace(node.name, node.op);
  for (const auto& node : model.graph.nodes())
    for (const auto& origin : node.origins) known.emplace(origin, node.op->name);
  return known;
}

void check_name(const std::string& name, const std::map<std::string, std::string>& known) {
  if (known.contains(name)) return;
  std::vector<std::string> names;
  for (const auto& [each, op] : known) names.push_back(each);
  const auto near = near_matches(name, names);
  throw usage_error(
      "the model has no node '{}'{}; names are those of the ONNX nodes, or operator "
      "and position of nodes without (`sinter inspect MODEL --graph`)",
      name, near.empty() ? "" : fmt::format(": did you mean '{}'?", fmt::join(near, "', '")));
}

ordered_json life_json(const WhyReport& report, const NodeLife& life) {
  ordered_json changes = ordered_json::array(), kernels = ordered_json::array();
  for (const auto& change : life.changes)
    changes.push_back({{"pass", change.pass}, {"became", change.became}});
  for (const auto id : life.kernels) kernels.push_back(report.kernel_text(id));
  return {{"name", life.name},
          {"op", report.operators.at(life.name)},
          {"changes", changes},
          {"gone_in", life.gone_in},
          {"kernels", kernels}};
}

ordered_json decisions_json(const std::vector<Decision>& decisions) {
  ordered_json all = ordered_json::array();
  for (const Decision& decision : decisions)
    all.push_back({{"pass", decision.pass},
                   {"producer", decision.producer},
                   {"consumer", decision.consumer},
                   {"fused", decision.fused},
                   {"reason", decision.reason},
                   {"bytes", decision.bytes},
                   {"launches", decision.launches},
                   {"operations_repeated", decision.operations}});
  return all;
}

ordered_json boundary_json(const WhyReport& report, const Boundary& boundary) {
  std::vector<std::string> types;
  for (const auto& type : boundary.values) types.push_back(ir::to_string(type));
  return {{"from", report.kernel_text(boundary.from)},
          {"to", report.kernel_text(boundary.to)},
          {"values", types},
          {"bytes_read", boundary.read_bytes},
          {"bytes_stored", boundary.stored_bytes},
          {"reason", boundary.reason},
          {"decisions", decisions_json(boundary.decisions)}};
}

}  // namespace

std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& known : std::set<std::string>(names.begin(), names.end())) {
    const bool is_part = name.size() > 1 && known.find(name) != std::string::npos;
    const std::size_t edits = is_part ? 0 : ir::edit_distance(name, known);
    if (is_part || edits <= std::max<std::size_t>(2, name.size() / 4))
      found.emplace_back(edits, known);
  }
  std::ranges::stable_sort(found, [](const auto& x, const auto& y) { return x.first < y.first; });
  if (found.size() > kMost) found.resize(kMost);
  std::vector<std::string> best;
  for (auto& [edits, known] : found) best.push_back(std::move(known));
  return best;
}

std::string WhyReport::kernel_text(ir::NodeId id) const { return fusion::describe(last.node(id)); }

ordered_json to_json(const WhyReport& report) {
  const auto& why = report.why;
  ordered_json json = {{"a", life_json(report, why.a)}, {"b", life_json(report, why.b)}};
  json["together"] = why.relation == Relation::kOneKernel;
  switch (why.relation) {
    case Relation::kOneKernel: {
      std::vector<std::string> kernels;
      for (const auto id : why.shared) kernels.push_back(report.kernel_text(id));
      json["relation"] = "one kernel";
      json["kernels"] = kernels;
      json["between"] = why.between;
      json["decisions"] = decisions_json(why.decisions);
      break;
    }
    case Relation::kSeparate:
      json["relation"] = "separate kernels";
      json["boundaries"] = ordered_json::array();
      for (const Boundary& boundary : why.boundaries)
        json["boundaries"].push_back(boundary_json(report, boundary));
      break;
    case Relation::kUnrelated: json["relation"] = "unrelated"; break;
    case Relation::kNoKernel: json["relation"] = "no kernel"; break;
  }
  json["bytes"] = why.bytes;
  json["launches"] = why.launches;
  json["operations_repeated"] = why.operations;
  json["layouts"] = ordered_json::array();
  for (const auto& choice : why.layouts)
    json["layouts"].push_back({{"node", choice.node},
                               {"bytes", choice.bytes},
                               {"other_bytes", choice.other_bytes},
                               {"reason", choice.reason}});
  return json;
}

WhyReport explain_why(const BuildOptions& options, const frontend::ImportedModel& model,
                      const Target& target, const std::string& a, const std::string& b,
                      Reporter& reporter) {
  auto known = known_nodes(model);
  check_name(a, known);
  check_name(b, known);
  if (a == b) throw usage_error("why takes two nodes; both are '" + a + "'");
  fusion::Trace trace({a, b}, model.graph);
  PipelineRun run = run_passes(
      options, model, target, reporter,
      [&trace](std::string_view pass, const ir::Graph& graph) { trace.after(pass, graph); });
  WhyReport report;
  report.why =
      fusion::explain(model.graph, run.graph, run.context, trace.lives()[0], trace.lives()[1]);
  report.last = std::move(run.graph);
  report.operators = std::move(known);
  return report;
}

}  // namespace sinter::tools
