// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <sinter/profile.h>

#include "ir/text/shown.h"
#include "tools/cli/build_options.h"
#include "tools/cli/input_options.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/api.h"
#include "tools/compiler/run/measure.h"

namespace sinter::tools {
namespace {

struct CompareArguments {
  BuildTexts build;
  InputTexts inputs;
  CompareOptions compare;
};

void run_compare(const CompareArguments& options, const Console& console) {
  const BuildRequest request(options.build, console);
  CompareOptions how = options.compare;
  how.inputs = parse(options.inputs);
  // Calls compare_builds directly: its messages then name flags.
  const CompareResult result = at_boundary(
      request.options().monitor, OptionNames::kFlags,
      [&](Reporter& reporter) { return compare_builds(request.options(), how, reporter); });
  Rows rows = {{"", "compute us", "p10", "p90", "wall us", "speed-up", "launches", "moved", "plan",
                "memory"}};
  nlohmann::ordered_json report = {{"model", options.build.model},
                                   {"target", result.target},
                                   {"precision", options.build.text("--precision")},
                                   {"weights", options.build.text("--weights")},
                                   {"shapes", result.shapes},
                                   {"cold_l2", !how.hot},
                                   {"fused_against_unfused_error", result.difference}};
  if (result.weights_error) report["weights_error"] = *result.weights_error;
  for (const auto& variant : result.variants) {
    rows.push_back({variant.name, fmt::format("{:.1f}", variant.compute.median),
                    fmt::format("{:.1f}", variant.compute.p10),
                    fmt::format("{:.1f}", variant.compute.p90),
                    fmt::format("{:.1f}", variant.wall.median),
                    fmt::format("{:.2f}x", variant.speed_up), fmt::format("{}", variant.launches),
                    format_bytes(static_cast<double>(variant.bytes_moved)),
                    format_bytes(static_cast<double>(variant.plan_bytes)),
                    format_bytes(static_cast<double>(variant.memory_bytes))});
    report["variants"][variant.name] = {
        {"compute_us", to_json(variant.compute)}, {"wall_us", to_json(variant.wall)},
        {"speed_up", variant.speed_up},           {"launches", variant.launches},
        {"bytes_moved", variant.bytes_moved},     {"plan_bytes", variant.plan_bytes},
        {"weight_bytes", variant.weight_bytes},   {"memory_bytes", variant.memory_bytes}};
  }
  console.print("{} for {}, {}", options.build.model, result.target, ir::shown(result.shapes));
  console.print(format_table(rows));
  console.print("medians of {} interleaved rounds{}; outputs agree within {:.1e}",
                result.variants.front().compute.count,
                result.target != "cpu" && !how.hot ? ", cold L2" : "", result.difference);
  if (result.weights_error)
    console.print("--weights {}: outputs are off by {:.1e} from those of the model's own",
                  options.build.text("--weights"), *result.weights_error);
  console.result(report);
}

}  // namespace

void add_compare(Cli& cli) {
  auto options = std::make_shared<CompareArguments>();
  auto* verb = cli.app.add_subcommand(
      "compare",
      "Compile a model fused and unfused, and measure both, interleaved in one process; with "
      "--weights also with the model's own");
  verb->add_option("model", options->build.model, "ONNX file")->required();
  add_build_options(*verb, options->build, OptionVerbs::kAll);
  add_input_options(*verb, options->inputs);
  verb->group("Measuring");
  verb->add_option("--rounds N", options->compare.rounds, "Most rounds")->capture_default_str();
  verb->add_option("--duration SECONDS", options->compare.seconds, "Most seconds of measuring")
      ->capture_default_str();
  verb->add_flag("--hot", options->compare.hot,
                 "Leave the caches as the last run left them, instead of emptying them before each "
                 "timed run");
  add_session_options(*verb, options->compare.session);
  verb->add_threads_option();
  verb->example("sinter compare model.onnx --shapes=x:4x8");
  verb->example("sinter compare model.onnx --weights=int8", "also with the model's own weights");
  verb->callback([options, &console = cli.console] { run_compare(*options, console); });
}

}  // namespace sinter::tools
