// SPDX-License-Identifier: Apache-2.0
#include "tools/report/report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <sinter/profile.h>

#include "codegen/program/describe.h"
#include "ir/text/text.h"
#include "runtime/format_error.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/inspect/compile_report.h"
#include "tools/compiler/inspect/plan_report.h"
#include "tools/compiler/inspect/profile_report.h"
#include "tools/compiler/inspect/step_list.h"
#include "tools/compiler/options/weights.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"
#include "tools/compiler/verify/verify_regions.h"
#include "tools/report/onnx_graph.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;
using plan::fb::PlanT;

/// Parses "x [1, 64], mask [1, 64]", the form in profiles.
Shapes shapes_of_profile(const std::string& text) {
  Shapes shapes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find(" [", at), close = text.find(']', open);
    if (open == std::string::npos || close == std::string::npos) break;
    std::vector<std::int64_t>& shape = shapes[text.substr(at, open - at)];
    for (std::size_t i = open + 2; i < close;) {
      std::size_t used = 0;
      shape.push_back(std::stoll(text.substr(i, close - i), &used));
      i += used + 2;  // ", "
    }
    at = close + 3;  // "], "
  }
  return shapes;
}

void check_profile(const ordered_json& profile, const ordered_json& steps) {
  if (profile.is_null()) return;
  if (!profile.is_object() || !profile.contains("steps") || !profile.contains("machine") ||
      !profile.contains("whole_us"))
    throw usage_error("the profile is none: make it with `sinter profile PLAN --json`");
  for (const auto& timed : profile.at("steps"))
    if (std::ranges::none_of(steps,
                             [&](const auto& step) { return step.at("name") == timed.at("name"); }))
      throw usage_error(
          "the profile is of another plan: it has a step '{}', which this one has not",
          timed.at("name").get<std::string>());
}

/// Adds to each step its buffers and the region that it computes.
class StepRegions {
 public:
  StepRegions(const PlanT& plan, plan::StepRange range) : plan_(plan), range_(range) {}

  void add_buffers(ordered_json& steps) const {
    std::size_t i = range_.first;
    for (auto& step : steps) {
      step["reads"] = plan_.steps[i]->reads;
      step["writes"] = plan_.steps[i]->writes;
      ++i;
    }
  }

  /// Matches regions to steps, which have the same order. A region may take several steps, with
  /// copies in between. Appends each region's first step, or -1, to `of_region`.
  void add_regions(const ir::Graph& graph, ordered_json& steps, std::vector<int>& of_region) {
    for (const ir::Node* region : fused_nodes(graph)) {
      const std::string stem = codegen::name_stem(*region) + "_";
      std::size_t at = next_;
      while (at < plan_.steps.size() && !(plan_.steps[at]->name.starts_with(stem) &&
                                          plan_.steps[at]->origins == region->origins))
        ++at;
      if (at == plan_.steps.size())  // a family may name its steps differently
        for (at = next_; at < plan_.steps.size(); ++at)
          if (!region->origins.empty() && plan_.steps[at]->origins == region->origins) break;
      if (at == plan_.steps.size()) {
        of_region.push_back(-1);
        continue;
      }
      next_ = at + 1;
      const bool is_shown = at >= range_.first && at - range_.first < steps.size();
      of_region.push_back(is_shown ? static_cast<int>(at - range_.first) : -1);
      if (!is_shown) continue;
      ordered_json& step = steps[at - range_.first];
      if (region->attrs.has("kind")) step["region"] = region->attrs.get_string("kind");
      step["body"] = ir::print(*region->body, {.origins = false});
    }
  }

 private:
  const PlanT& plan_;
  plan::StepRange range_;
  std::size_t next_ = 0;
};

ordered_json graph_json(const OnnxGraph& graph, const std::vector<int>& step_of_region) {
  ordered_json json = {{"nodes", ordered_json::array()}, {"edges", ordered_json::array()}};
  for (const OnnxNode& node : graph.nodes) {
    ordered_json one = {{"name", node.name}, {"op", node.op}, {"type", node.type}};
    if (node.origins.size() > 1) one["origins"] = node.origins;
    if (node.region >= 0) one["step"] = step_of_region[static_cast<std::size_t>(node.region)];
    json["nodes"].push_back(std::move(one));
  }
  for (const auto& [from, to] : graph.edges) json["edges"].push_back({from, to});
  return json;
}

/// Results of compilation besides the plan.
struct Compiled {
  const frontend::ImportedModel& model;
  const fusion::Context& context;
  const std::vector<fusion::PassTime>& passes;
  ordered_json errors;  // errors of its regions; null: not measured
};

ordered_json errors_of_regions(const BuildResult& built, const ReportOptions& how,
                               const Reporter& reporter) {
  VerifyOptions options;
  options.inputs = how.inputs;
  options.session = how.session;
  ordered_json errors = ordered_json::array();
  for (const RegionResult& region : verify_regions(built, options, reporter).regions)
    errors.push_back(to_json(region));
  return errors;
}

void add_compiled(const Compiled& compiled, ordered_json& report) {
  for (const auto& decision : compiled.context.decisions)
    report["decisions"].push_back({{"producer", decision.producer},
                                   {"consumer", decision.consumer},
                                   {"fused", decision.fused},
                                   {"reason", decision.reason},
                                   {"from", decision.producer_origins},
                                   {"to", decision.consumer_origins},
                                   {"bytes", decision.bytes}});
  for (const auto& layer : compiled.context.layers)
    report["layers"].push_back(to_json(layer_result(layer)));
  for (const auto& pass : compiled.passes) {
    ordered_json row =
        to_json(PassResult{pass.name, pass.milliseconds, pass.nodes_before, pass.nodes_after});
    row["changed"] = pass.changed;
    report["passes"].push_back(std::move(row));
  }
}

/// Profiles now; null, with a note, if the plan cannot run here.
ordered_json take_profile(const Plan& plan, const ReportOptions& how, Reporter& reporter) {
  ProfileOptions options;
  options.inputs = how.inputs;
  options.session = how.session;
  options.rounds = how.rounds;
  try {
    const ProfileReport profile = profile_plan(plan, options, reporter);
    ordered_json json = {{"target", profile.target}, {"shapes", profile.shapes}};
    json.update(to_json(profile));
    return json;
  } catch (const Error& error) {
    // Static data stay available: the plan may need a GPU, or other inputs.
    if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kInternal) throw;
    reporter.note("report",
                  fmt::format("the report has no times, as the plan did not run: {}; give other "
                              "--inputs or --shapes, or times that `sinter profile PLAN --json` "
                              "took elsewhere with --profile",
                              error.what()));
    return nullptr;
  }
}

ordered_json report_of(const Plan& plan, const std::string& name, std::uint64_t plan_bytes,
                       const Compiled* compiled, const ReportOptions& how, Reporter& reporter) {
  const PlanT& meta = PlanAccess::data(plan)->meta;
  ReportOptions own = how;
  if (own.profile.is_object() && own.profile.contains("shapes") && own.inputs.shapes.empty() &&
      own.inputs.files.empty())
    own.inputs.shapes = shapes_of_profile(own.profile.at("shapes").get<std::string>());
  PlanViews views;
  std::string shapes;
  {
    const auto inputs = make_inputs(plan.inputs(), own.inputs);
    const auto bindings = plan.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      views.shapes[bindings[i].name] = inputs[i].shape();
    shapes = describe_shapes(plan, inputs);
  }

  ordered_json report;
  report["summary"] = plan_report(plan, {});
  report["summary"]["title"] = std::filesystem::path(name).filename().string();
  report["summary"]["shapes"] = shapes;
  report["summary"]["plan_bytes"] = plan_bytes;
  report["summary"]["is_model"] = compiled != nullptr;
  views.steps = views.kernels = views.source = views.memory = true;
  report.update(plan_report(plan, views));
  check_profile(own.profile, report.at("step_list"));

  const auto values = bind_shapes(meta, views.shapes);
  ordered_json& steps = report.at("step_list");
  StepRegions regions(meta, steps_for(meta, values));
  regions.add_buffers(steps);
  report["first_step"] = steps_for(meta, values).first;
  std::vector<int> step_of_region;
  OnnxGraph graph;
  const std::map<std::string, std::string> no_operators;
  const bool has_nodes = compiled != nullptr && !compiled->model.nodes.empty();
  for (const ir::Graph& fused : graphs_of_text(meta.graph_text)) {
    const auto first = static_cast<int>(step_of_region.size());
    regions.add_regions(fused, steps, step_of_region);
    if (!has_nodes) add_onnx_nodes(fused, no_operators, first, graph);
  }
  if (has_nodes) {
    std::map<std::string, std::string> operators;
    for (const auto& node : compiled->model.nodes) operators.emplace(node.name, node.op);
    std::vector<const ir::Graph*> imported;
    if (compiled->model.flag)
      for (const ir::Graph& body : compiled->model.flag->graphs) imported.push_back(&body);
    else
      imported.push_back(&compiled->model.graph);
    for (const ir::Graph* one : imported) add_onnx_nodes(*one, operators, 0, graph);
  }
  report["graph"] = graph_json(graph, step_of_region);
  if (compiled != nullptr) add_compiled(*compiled, report);
  report["profile"] =
      own.profile.is_null() && own.measure ? take_profile(plan, own, reporter) : own.profile;
  report["compare"] = own.compare;
  if (compiled != nullptr && !compiled->errors.is_null()) report["errors"] = compiled->errors;
  return report;
}

}  // namespace

ordered_json report_of_model(const BuildOptions& options, const ReportOptions& how,
                             Reporter& reporter) {
  const BuildResult built = build_plan(options, reporter);
  std::optional<std::vector<std::byte>> bytes = plan::serialize_plan(built.plan.parts);
  const std::size_t size = bytes->size();
  const Plan plan = Plan::from_memory(*bytes);
  bytes.reset();  // the plan has a copy
  const Compiled compiled{built.model, built.pipeline.context, built.pipeline.times,
                          how.verify ? errors_of_regions(built, how, reporter) : nullptr};
  return report_of(plan, name_of(options.model), size, &compiled, how, reporter);
}

ordered_json report_of_plan(const Plan& plan, const std::string& name, const ReportOptions& how,
                            Reporter& reporter) {
  if (how.verify)
    throw usage_error(
        "the errors of a plan's kernels cannot be measured, as '{}' does not have the "
        "model: make the report of the model",
        name);
  std::error_code no_size;
  const auto size = std::filesystem::file_size(name, no_size);
  return report_of(plan, name, no_size ? 0 : size, nullptr, how, reporter);
}

}  // namespace sinter::tools
