#include <memory>
#include <optional>

#include <fmt/format.h>
#include <sinter/profile.h>

#include "runtime/plan/plan_data.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/build.h"
#include "tools/compiler/options/inputs.h"
#include "tools/compiler/verify/measure.h"

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
  double plan_bytes;
  Session session;
  std::vector<double> compute, wall;
};

/// The variant that has the model's own weights, where --weights makes others.
constexpr const char* kModelWeights = "model-weights";

struct Build {
  std::string name;
  BuildOptions options;
};

std::vector<Build> builds_of(const Options& options) {
  std::vector<Build> builds{{"unfused", options.build}, {"fused", options.build}};
  builds[0].options.fuse = false;
  builds[1].options.fuse = true;
  if (options.build.weights.weights != "model") {
    builds.push_back(builds[1]);
    builds.back().name = kModelWeights;
    builds.back().options.weights = {};
  }
  return builds;
}

void measure(std::vector<Variant>& variants, const Options& options, const Console& console) {
  for (auto& variant : variants)
    for (int i = 0; i < 5; ++i) variant.session.run();
  Progress progress(console, "measuring");
  double spent = 0;
  for (int round = 0; round < options.rounds && (round < 5 || spent < options.duration * 1e6);
       ++round) {
    for (auto& variant : variants) {
      variant.compute.push_back(time_compute(variant.session, !options.hot));
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
  for (const Build& build : builds_of(options)) {
    const auto built = build_plan(build.options, model, target, console);
    const auto bytes = plan::serialize_plan(built.plan.parts);
    const auto plan = Plan::from_memory(bytes);
    for (const bool graph : {false, true}) {
      // Weights are compared as plans run.
      if (graph ? !target.cuda : target.cuda && build.name == kModelWeights) continue;
      auto session = options.session;
      session.cuda_graphs = graph;
      const std::string name = build.name + (!target.cuda ? "" : graph ? "-graph" : "-stream");
      variants.push_back(
          {name, plan, static_cast<double>(bytes.size()), Session(plan, session), {}, {}});
      set_inputs(variants.back().session, plan, inputs);
    }
  }
  measure(variants, options, console);

  double difference = 0;
  std::optional<double> weights_error;
  const auto reference = get_outputs(variants.front().session, variants.front().plan);
  for (auto& variant : variants) {
    const auto outputs = get_outputs(variant.session, variant.plan);
    const bool other_weights = variant.name.starts_with(kModelWeights);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (other_weights)
        weights_error =
            std::max(weights_error.value_or(0), relative_error(reference[i], outputs[i]));
      else
        difference = std::max(difference, relative_error(outputs[i], reference[i]));
    }
  }

  std::vector<std::vector<std::string>> rows = {{"", "compute us", "p10", "p90", "wall us",
                                                 "speed-up", "launches", "moved", "plan",
                                                 "memory"}};
  nlohmann::ordered_json report = {{"model", options.build.model},
                                   {"target", target.to_string()},
                                   {"precision", options.build.precision},
                                   {"weights", options.build.weights.weights},
                                   {"shapes", describe_shapes(variants.front().plan, inputs)},
                                   {"cold_l2", !options.hot},
                                   {"fused_against_unfused_error", difference}};
  if (weights_error) report["weights_error"] = *weights_error;
  const double baseline = statistics_of(variants.front().compute).median;
  for (auto& variant : variants) {
    const auto compute = statistics_of(variant.compute), wall = statistics_of(variant.wall);
    const auto bytes = variant.session.bytes_moved();
    const auto memory = variant.session.memory();
    const std::uint64_t held = memory.weights + memory.arena + memory.workspace + memory.io;
    rows.push_back(
        {variant.name, fmt::format("{:.1f}", compute.median), fmt::format("{:.1f}", compute.p10),
         fmt::format("{:.1f}", compute.p90), fmt::format("{:.1f}", wall.median),
         fmt::format("{:.2f}x", baseline / compute.median),
         fmt::format("{}", variant.session.launches()), format_bytes(static_cast<double>(bytes)),
         format_bytes(variant.plan_bytes), format_bytes(static_cast<double>(held))});
    report["variants"][variant.name] = {{"compute_us", to_json(compute)},
                                        {"wall_us", to_json(wall)},
                                        {"speed_up", baseline / compute.median},
                                        {"launches", variant.session.launches()},
                                        {"bytes_moved", bytes},
                                        {"plan_bytes", variant.plan_bytes},
                                        {"weight_bytes", memory.weights},
                                        {"memory_bytes", held}};
  }
  console.print(fmt::format("{} for {}, {}", options.build.model, target.to_string(),
                            describe_shapes(variants.front().plan, inputs)));
  console.print(format_table(rows));
  console.print(fmt::format("medians of {} interleaved rounds{}; outputs agree within {:.1e}",
                            variants.front().compute.size(),
                            target.cuda && !options.hot ? ", cold L2" : "", difference));
  if (weights_error)
    console.print(
        fmt::format("--weights {}: outputs are off by {:.1e} from those of the model's own",
                    options.build.weights.weights, *weights_error));
  console.result(report);
}

}  // namespace

void add_compare(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand(
      "compare",
      "Compile a model fused and unfused, and measure both, interleaved in one process; with "
      "--weights also with the model's own");
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
  verb->add_option("--threads", options->session.threads,
                   "CPU threads, at most the pool's; 0: all of them");
  verb->callback([options, &console = cli.console] { run(*options, console); });
}

}  // namespace sinter::tools
