#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/text.h"
#include "tools/support/build.h"
#include "tools/support/graph_file.h"
#include "tools/support/inspect_plan.h"
#include "tools/verbs/verbs.h"

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

/// Decisions whose two sides contain the two texts.
void print_why(const Options& options, const PipelineRun& run, const Console& console) {
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  for (const auto& decision : run.context.decisions) {
    const auto& a = options.why[0];
    const auto& b = options.why[1];
    if (!(contains(decision.producer, a) && contains(decision.consumer, b)) &&
        !(contains(decision.producer, b) && contains(decision.consumer, a)))
      continue;
    console.print(
        fmt::format("{} -> {}\n  {}", decision.producer, decision.consumer, decision.reason));
    report.push_back({{"producer", decision.producer},
                      {"consumer", decision.consumer},
                      {"fused", decision.fused},
                      {"reason", decision.reason}});
  }
  if (report.empty())
    throw Error(
        ErrorCode::kUsage,
        fmt::format("no decision was made about '{}' and '{}': one does not read the other; "
                    "names are those of the ONNX nodes (`sinter inspect MODEL --graph`)",
                    options.why[0], options.why[1]));
  console.result({{"decisions", report}});
}

void inspect_model(const Options& options, const Console& console) {
  const auto model = import_with_shapes(options.build);
  if (!options.why.empty()) {
    const auto target = resolve_target(options.build.target);
    print_why(options, run_passes(options.build, model, target, console), console);
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
  verb->add_flag("--steps", options->views.steps, "Every step with its traffic and ONNX origins");
  verb->add_flag("--kernels", options->views.kernels,
                 "Every kernel with its variants and schedules");
  verb->add_flag("--source", options->views.source, "The generated CUDA text");
  verb->add_flag("--memory", options->views.memory, "The memory plan, for --shapes");
  verb->add_flag("--tuning", options->views.tuning,
                 "What was chosen by timing on GPUs, from the file beside the plan");
  verb->add_option("--shapes", options->views.shapes, "Shapes for --memory and --steps: NAME:1x64");
  verb->add_flag("--passes", options->passes, "The names of the passes, in order");
  verb->add_option("--why", options->why, "Why two ONNX nodes did or did not fuse")->expected(2);
  add_build_options(*verb, options->build, false);
  verb->callback([options, &console = cli.console] { run(*options, console); });
}

}  // namespace sinter::tools
