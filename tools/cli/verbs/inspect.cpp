// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>

#include <fmt/ranges.h>

#include "frontend/export/export.h"
#include "ir/text/shown.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/build_options.h"
#include "tools/cli/text/plan_text.h"
#include "tools/cli/text/table.h"
#include "tools/cli/text/why_text.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/inspect/plan_report.h"
#include "tools/compiler/inspect/why.h"
#include "tools/compiler/refit/refit.h"
#include "tools/report/onnx_graph.h"

namespace sinter::tools {
namespace {

struct InspectArguments {
  BuildTexts build;  // build.model is the file: plan, ONNX or Graph text
  PlanViews views;
  std::string shapes;
  bool passes = false;
  bool refit = false;
  std::vector<std::string> why;
  std::string onnx;
  bool with_weights = false;
};

void print_all(const std::vector<std::string>& lines, const Console& console) {
  for (const auto& line : lines) console.print(line);
}

void print_passes(const Console& console) {
  Rows rows = {{"pass", "under --fuse=off"}};
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const auto& pass : fusion::pipeline()) {
    rows.push_back({std::string(pass.name), pass.only_when_fusing ? "left out" : "runs"});
    report.push_back({{"pass", pass.name}, {"only_when_fusing", pass.only_when_fusing}});
  }
  console.print(format_table(rows));
  console.result({{"passes", report}});
}

void show_refit(const std::string& path, const Console& console) {
  const auto report = refit_report(Plan::load(path));
  Rows rows = {{"tensor", "type", "can be refitted"}};
  for (const auto& tensor : report.at("tensors")) {
    std::string what = "yes";
    if (!tensor.at("refittable").get<bool>())
      what = "no: " + tensor.at("why").get<std::string>();
    else if (!tensor.at("conditions").empty())
      what = fmt::format("yes, while the answers stay: {}",
                         fmt::join(tensor.at("conditions").get<std::vector<std::string>>(), "; "));
    rows.push_back({ir::shown(tensor.at("name").get<std::string>()),
                    tensor.at("type").get<std::string>(), ir::shown(what)});
  }
  console.print(format_table(rows));
  if (const auto& unused = report.at("unused"); !unused.empty())
    console.print("{} tensors of the model are in no weight", unused.size());
  console.result(report);
}

/// --onnx: writes `graph` as a file for ONNX viewers.
void write_onnx(const InspectArguments& options, const ir::Graph& graph, const Console& console) {
  frontend::ExportOptions how;
  if (options.with_weights) how.largest_constant = std::numeric_limits<std::size_t>::max();
  const frontend::ExportedModel exported = frontend::export_onnx(graph, how);
  files::write_file(options.onnx, exported.bytes, {.what = "the model", .is_durable = false});
  console.print("{}: {}, {} kernels as functions{}", options.onnx,
                format_bytes(static_cast<double>(exported.bytes.size())), exported.kernels,
                exported.left_out.empty()
                    ? ""
                    : fmt::format("; {} constants are inputs without a value (--with-weights "
                                  "writes them, too)",
                                  exported.left_out.size()));
  console.result({{"onnx", options.onnx},
                  {"bytes", exported.bytes.size()},
                  {"kernels", exported.kernels},
                  {"constants_left_out", exported.left_out}});
}

void write_plan_as_onnx(const InspectArguments& options, const Console& console) {
  if (options.with_weights)
    throw usage_error("a plan has its weights in other layouts: for --with-weights give the model");
  const Plan plan = Plan::load(options.build.model);
  const auto graphs = graphs_of_text(plan.graph_text());
  if (graphs.size() != 1)
    throw usage_error(
        "--onnx is of one list of steps, and the plan has {} entry points: give the "
        "model, with --dim for the one that you mean",
        graphs.size());
  write_onnx(options, graphs[0], console);
}

void write_model_as_onnx(const InspectArguments& options, const BuildOptions& build,
                         const Console& console) {
  require_one_entry(build, "--onnx");
  Reporter reporter(build.monitor);
  const auto model = import_model(build.model, build, reporter);
  const auto passes = run_passes(build, model, resolve_target(build.target), reporter);
  write_onnx(options, passes.graph, console);
}

void show_plan(const InspectArguments& options, const Console& console) {
  if (options.refit) return show_refit(options.build.model, console);
  PlanViews views = options.views;
  views.shapes = parse_shapes(options.shapes);
  const auto report = plan_report(Plan::load(options.build.model), views);
  if (views.steps) print_all(steps_text(report, console.line_width()), console);
  if (views.kernels) print_all(kernels_text(report, console.line_width()), console);
  if (views.memory) print_all(memory_text(report), console);
  if (views.source) print_all(source_text(report), console);
  if (views.graph) console.print(report.at("graph").get<std::string>());
  if (views.tuning) print_all(plan_tuning_text(report), console);
  if (report.contains("compiler")) print_all(plan_summary_text(report), console);
  console.result(report);
}

void show_why(const InspectArguments& options, const BuildOptions& build, const Console& console) {
  run_each_entry(build, {}, console, [&](const BuildOptions& one, const Console& own) {
    Reporter reporter(one.monitor);
    const auto report =
        explain_why(one, import_model(one.model, one, reporter), resolve_target(one.target),
                    options.why[0], options.why[1], reporter);
    print_all(why_text(report), own);
    own.result(to_json(report));
    return 0;
  });
}

void show_model(const InspectArguments& options, const Console& console) {
  if (options.refit) throw usage_error("--refit is of a plan: compile the model first");
  const BuildRequest request(options.build, console);
  const BuildOptions& build = request.options();
  if (!options.onnx.empty()) return write_model_as_onnx(options, build, console);
  if (!options.why.empty()) return show_why(options, build, console);
  Reporter reporter(build.monitor);
  const auto model = import_model(build.model, build, reporter);
  if (options.views.steps) {
    const auto report = steps_report(build, model, parse_shapes(options.shapes), reporter);
    print_all(steps_text(report, console.line_width()), console);
    return console.result(report);
  }
  const auto report = model_report(options.build.model, model, options.views.graph);
  if (options.views.graph) {
    console.print(report.at("graph").get<std::string>());
    return console.result(report);
  }
  const std::string source =
      is_graph_text(build.model) ? "Graph text"
      : model.opset == 0
          ? model.producer
          : fmt::format("opset {}, {} nodes, written by {}", model.opset, model.node_count,
                        model.producer.empty() ? "an unnamed exporter" : ir::shown(model.producer));
  console.print("{}: {}; {} nodes in the graph", options.build.model, source,
                model.graph.nodes().size());
  for (const char* what : {"input", "output"})
    if (const auto list = report.find(fmt::format("{}s", what)); list != report.end())
      for (const auto& binding : *list)
        console.print("{} {}: {}", what, ir::shown(binding.at("name").get<std::string>()),
                      ir::shown(binding.at("type").get<std::string>()));
  for (const auto& [symbol, range] : model.graph.ranges())
    console.print("dimension {}: {}..{}", ir::shown(symbol), range.min, range.max);
  std::vector<std::string> parts;
  for (const auto& [op, count] : report.at("operators").items())
    parts.push_back(fmt::format("{} {}", count.get<int>(), op));
  console.print("operators: {}", fmt::join(parts, ", "));
  console.result(report);
}

void run_inspect(const InspectArguments& options, const Console& console) {
  if (options.passes) {
    print_passes(console);
    return;
  }
  if (options.build.model.empty())
    throw usage_error("name a plan, an ONNX file or Graph text, or ask for --passes");
  files::check_output(options.onnx, {options.build.model});
  if (is_plan_file(options.build.model)) {
    check_no_build_options(options.build, options.build.model);
    if (!options.onnx.empty()) return write_plan_as_onnx(options, console);
    if (!options.why.empty())
      throw usage_error("--why needs the ONNX file: a plan does not keep refused fusions");
    show_plan(options, console);
  } else {
    show_model(options, console);
  }
}

}  // namespace

void add_inspect(Cli& cli) {
  auto options = std::make_shared<InspectArguments>();
  auto* verb = cli.app.add_subcommand("inspect", "Show what is in a plan or a model");
  verb->add_option("file", options->build.model, "Plan, ONNX file or Graph text");
  verb->group("What to show");
  verb->add_flag("--graph", options->views.graph,
                 "The graph as text (of a plan: after the passes)");
  verb->add_flag("--steps", options->views.steps,
                 "Every step with its launches, traffic and ONNX origins; of a model: as compiled "
                 "for --target, without kernels");
  verb->add_flag("--kernels", options->views.kernels,
                 "Every kernel with its variants and schedules");
  verb->add_flag("--source", options->views.source, "The generated CUDA text");
  verb->add_flag("--memory", options->views.memory, "The memory plan, for --shapes");
  verb->add_flag("--tuning", options->views.tuning,
                 "What was chosen by timing on GPUs, from the file beside the plan");
  verb->add_flag("--refit", options->refit,
                 "Which tensors of the model `sinter refit` can give other values, and which not "
                 "and why");
  verb->add_option("--shapes SHAPES", options->shapes,
                   "Shapes for --memory and --steps: NAME:1x64");
  verb->add_flag("--passes", options->passes, "The names of the passes, in order");
  verb->add_option("--why A B", options->why,
                   "Why two ONNX nodes are or are not in one kernel, and what that saves")
      ->expected(2);
  auto* onnx = verb->add_option("--onnx FILE", options->onnx,
                                "Write the fused graph into this ONNX file, with a function for "
                                "each kernel, for viewers such as Netron");
  verb->add_flag("--with-weights", options->with_weights,
                 "With large constants, which --onnx leaves out")
      ->needs(onnx);
  add_build_options(*verb, options->build, OptionVerbs::kNotCompare);
  verb->example("sinter inspect model.plan --steps");
  verb->example("sinter inspect model.onnx", "its inputs, dimensions and operators");
  verb->example("sinter inspect model.onnx --why product bias",
                "why two nodes are or are not in one kernel");
  verb->callback([options, &console = cli.console] { run_inspect(*options, console); });
}

}  // namespace sinter::tools
