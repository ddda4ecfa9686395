#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tools/support/build.h"
#include "tools/support/inputs.h"
#include "tools/support/measure.h"
#include "tools/verbs/verbs.h"

namespace sinter::tools {
namespace {

struct Options {
  BuildOptions build;
  InputOptions inputs;
  SessionOptions session;
  int rounds = 100;
  double duration = 10;
  bool hot = false;
};

/// One column of the comparison.
struct Variant {
  std::string name;
  Plan plan;
  Session session;
  std::vector<double> compute, wall;
};

void measure(std::vector<Variant>& variants, const Options& options, const Console& console) {
  for (auto& variant : variants)
    for (int i = 0; i < 5; ++i) variant.session.run();
  Progress progress(console, "measuring");
  double spent = 0;
  for (int round = 0; round < options.rounds && (round < 5 || spent < options.duration * 1e6);
       ++round) {
    for (auto& variant : variants) {
      variant.compute.push_back(variant.session.time_compute(!options.hot));
      variant.wall.push_back(time_run(variant.session));
      spent += variant.compute.back() + variant.wall.back();
    }
    progress.update(static_cast<std::size_t>(round) + 1, static_cast<std::size_t>(options.rounds));
  }
}

void run(const Options& options, const Console& console) {
  const auto target = resolve_target(options.build.target);
  auto model = import_with_shapes(options.build);
  const auto inputs = make_inputs(describe_inputs(model.graph), options.inputs);

  std::vector<Variant> variants;
  for (const bool fuse : {false, true}) {
    auto build = options.build;
    build.fuse = fuse;
    const auto plan = load_built(build_plan(build, model, target, console).plan);
    for (const bool graph : {false, true}) {
      if (graph && !target.cuda) continue;
      auto session = options.session;
      session.cuda_graphs = graph;
      const std::string name = std::string(fuse ? "fused" : "unfused") + (!target.cuda ? ""
                                                                          : graph      ? "-graph"
                                                                                       : "-stream");
      variants.push_back({name, plan, Session(plan, session), {}, {}});
      set_inputs(variants.back().session, plan, inputs);
    }
  }
  measure(variants, options, console);

  double difference = 0;
  const auto reference = get_outputs(variants.front().session, variants.front().plan);
  for (auto& variant : variants) {
    const auto outputs = get_outputs(variant.session, variant.plan);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      difference = std::max(difference, relative_error(outputs[i], reference[i]));
  }

  std::vector<std::vector<std::string>> rows = {
      {"", "compute us", "p10", "p90", "wall us", "speed-up", "launches", "moved"}};
  nlohmann::ordered_json report = {{"model", options.build.model},
                                   {"target", target.to_string()},
                                   {"precision", options.build.precision},
                                   {"shapes", describe_shapes(variants.front().plan, inputs)},
                                   {"cold_l2", !options.hot},
                                   {"fused_against_unfused_error", difference}};
  const double baseline = statistics_of(variants.front().compute).median;
  for (auto& variant : variants) {
    const auto compute = statistics_of(variant.compute), wall = statistics_of(variant.wall);
    const auto bytes = variant.session.bytes_moved();
    rows.push_back(
        {variant.name, fmt::format("{:.1f}", compute.median), fmt::format("{:.1f}", compute.p10),
         fmt::format("{:.1f}", compute.p90), fmt::format("{:.1f}", wall.median),
         fmt::format("{:.2f}x", baseline / compute.median),
         fmt::format("{}", variant.session.launches()), format_bytes(static_cast<double>(bytes))});
    report["variants"][variant.name] = {{"compute_us", to_json(compute)},
                                        {"wall_us", to_json(wall)},
                                        {"speed_up", baseline / compute.median},
                                        {"launches", variant.session.launches()},
                                        {"bytes_moved", bytes}};
  }
  console.print(fmt::format("{} for {}, {}", options.build.model, target.to_string(),
                            describe_shapes(variants.front().plan, inputs)));
  console.print(format_table(rows));
  console.print(fmt::format("medians of {} interleaved rounds{}; outputs agree within {:.1e}",
                            variants.front().compute.size(),
                            target.cuda && !options.hot ? ", cold L2" : "", difference));
  console.result(report);
}

}  // namespace

void add_compare(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand(
      "compare", "Compile a model fused and unfused, and measure both, interleaved in one process");
  verb->add_option("model", options->build.model, "ONNX file")->required();
  add_build_options(*verb, options->build, false);
  add_input_options(*verb, options->inputs);
  verb->add_option("--rounds", options->rounds, "Most rounds")->capture_default_str();
  verb->add_option("--duration", options->duration, "Most seconds of measuring")
      ->capture_default_str();
  verb->add_flag("--hot", options->hot,
                 "Leave the caches as the last run left them, instead of emptying them before each "
                 "timed run");
  verb->add_option("--device", options->session.device, "CUDA device")->capture_default_str();
  verb->add_option("--threads", options->session.threads, "CPU threads; 0 is all cores");
  verb->callback([options, &console = cli.console] { run(*options, console); });
}

}  // namespace sinter::tools
