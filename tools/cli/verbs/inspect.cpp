#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/text.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/each_entry.h"
#include "tools/compiler/inspect/inspect_plan.h"
#include "tools/compiler/inspect/step_list.h"
#include "tools/compiler/inspect/why.h"
#include "tools/compiler/options/graph_file.h"

namespace sinter::tools {
namespace {

struct Options {
  BuildOptions build;  // build.model is the file: plan, ONNX or Graph text
  PlanViews views;
  bool passes = false;
  std::vector<std::string> why;
};

void print_passes(const Console& console) {
  std::vector<std::vector<std::string>> rows = {{"pass", "under --fuse=off"}};
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const auto& pass : fusion::pipeline()) {
    rows.push_back({std::string(pass.name), pass.only_when_fusing ? "left out" : "runs"});
    report.push_back({{"pass", pass.name}, {"only_when_fusing", pass.only_when_fusing}});
  }
  console.print(format_table(rows));
  console.result({{"passes", report}});
}

/// The steps that the model would have; no kernel is compiled.
void show_steps(const Options& options, const frontend::ImportedModel& model,
                const Console& console) {
  auto build = options.build;
  build.code = false;
  const auto result = build_plan(build, model, resolve_target(build.target), console);
  const auto& plan = result.plan.parts.meta;
  nlohmann::ordered_json report = {{"model", build.model},
                                   {"target", result.target.to_string()},
                                   {"precision", build.precision},
                                   {"fuse", build.fuse ? "on" : "off"},
                                   {"shapes", options.views.shapes}};
  std::vector<std::int64_t> values;
  if (!options.views.shapes.empty() || plan.symbols.empty())
    values = bind_shapes(plan, options.views.shapes);
  list_steps(plan, values, console, report);
  console.result(report);
}

void inspect_model(const Options& options, const Console& console) {
  if (!options.why.empty()) {
    run_each_entry(options.build, {}, console, [&](const BuildOptions& build, const Console& own) {
      const auto target = resolve_target(build.target);
      explain_why(build, import_with_shapes(build), target, options.why[0], options.why[1], own);
      return 0;
    });
    return;
  }
  const auto model = import_with_shapes(options.build);
  if (options.views.steps) {
    show_steps(options, model, console);
    return;
  }
  nlohmann::ordered_json report = {{"model", options.build.model},
                                   {"opset", model.opset},
                                   {"producer", model.producer},
                                   {"nodes", model.node_count},
                                   {"graph_nodes", model.graph.nodes().size()}};
  const auto text = ir::print(model.graph);
  if (options.views.graph) {
    report["graph"] = text;
    console.print(text);
  } else {
    const std::string source =
        is_graph_file(options.build.model)
            ? "Graph text"
            : fmt::format("opset {}, {} nodes, written by {}", model.opset, model.node_count,
                          model.producer.empty() ? "an unnamed exporter" : model.producer);
    console.print(fmt::format("{}: {}; {} nodes in the graph", options.build.model, source,
                              model.graph.nodes().size()));
    const auto line = [&](const char* what, const std::string& name, const ir::TensorType& type) {
      console.print(fmt::format("{} {}: {}", what, name, ir::to_string(type)));
      report[fmt::format("{}s", what)].push_back({{"name", name}, {"type", ir::to_string(type)}});
    };
    for (const auto id : model.graph.inputs())
      line("input", model.graph.value(id).name, model.graph.type(id));
    for (std::size_t i = 0; i < model.graph.outputs().size(); ++i)
      line("output", model.graph.output_names()[i], model.graph.type(model.graph.outputs()[i]));
    for (const auto& [symbol, range] : model.graph.ranges())
      console.print(fmt::format("dimension {}: {}..{}", symbol, range.min, range.max));
    std::map<std::string, int> counts;
    for (const auto& node : model.graph.nodes()) ++counts[node.op->name];
    std::vector<std::string> parts;
    for (const auto& [op, count] : counts) parts.push_back(fmt::format("{} {}", count, op));
    console.print(fmt::format("operators: {}", fmt::join(parts, ", ")));
    report["operators"] = counts;
  }
  console.result(report);
}

void run(const Options& options, const Console& console) {
  if (options.passes) {
    print_passes(console);
    return;
  }
  if (options.build.model.empty())
    throw Error(ErrorCode::kUsage, "name a plan, an ONNX file or Graph text, or ask for --passes");
  if (is_plan_file(options.build.model)) {
    if (!options.why.empty())
      throw Error(ErrorCode::kUsage,
                  "--why needs the ONNX file: a plan does not keep refused fusions");
    inspect_plan(options.build.model, options.views, console);
  } else {
    inspect_model(options, console);
  }
}

}  // namespace

void add_inspect(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand("inspect", "Show what is in a plan or a model");
  verb->add_option("file", options->build.model, "Plan, ONNX file or Graph text");
  verb->add_flag("--graph", options->views.graph,
                 "The graph as text (of a plan: after the passes)");
  verb->add_flag(
      "--steps", options->views.steps,
      "Every step with its launches, traffic and ONNX origins; of a model: as compiled for "
      "--target, without kernels");
  verb->add_flag("--kernels", options->views.kernels,
                 "Every kernel with its variants and schedules");
  verb->add_flag("--source", options->views.source, "The generated CUDA text");
  verb->add_flag("--memory", options->views.memory, "The memory plan, for --shapes");
  verb->add_flag("--tuning", options->views.tuning,
                 "What was chosen by timing on GPUs, from the file beside the plan");
  verb->add_option("--shapes", options->views.shapes, "Shapes for --memory and --steps: NAME:1x64");
  verb->add_flag("--passes", options->passes, "The names of the passes, in order");
  verb->add_option("--why", options->why,
                   "Why two ONNX nodes are or are not in one kernel, and what that saves")
      ->expected(2);
  add_build_options(*verb, options->build, false);
  add_fuse_option(*verb, options->build);
  verb->callback([options, &console = cli.console] { run(*options, console); });
}

}  // namespace sinter::tools
