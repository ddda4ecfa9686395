// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/refit/refit.h"

#include <memory>

#include "runtime/format_error.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/api.h"

namespace sinter::tools {
namespace {

struct RefitArguments {
  std::string plan, weights, output;
  bool partial = false;
};

void run_refit(const RefitArguments& options, const Console& console) {
  const RefitResult result =
      at_boundary(monitor_of(console), OptionNames::kFlags, [&](Reporter& reporter) {
        return refit_file(Plan::load(options.plan), options.weights, options.output,
                          options.partial, reporter);
      });
  console.print("{}: {}, {} weights made anew, {} kept, {:.0f} ms", options.output,
                format_bytes(static_cast<double>(result.plan_bytes)), result.changed, result.kept,
                result.milliseconds);
  console.result({{"path", result.path},
                  {"plan_bytes", result.plan_bytes},
                  {"changed", result.changed},
                  {"kept", result.kept},
                  {"milliseconds", result.milliseconds}});
}

}  // namespace

void add_refit(Cli& cli) {
  auto options = std::make_shared<RefitArguments>();
  auto* verb =
      cli.app.add_subcommand("refit", "Give a plan other weights, without compiling again");
  verb->add_option("plan", options->plan, "Plan file")->required();
  verb->group("Weights and output");
  verb->add_option(
          "--weights FILE", options->weights,
          "The new weights: an ONNX file of the same model, or safetensors under the names "
          "of its initializers")
      ->required();
  verb->add_option("-o,--output FILE", options->output, "Plan file")->required();
  verb->add_flag("--partial", options->partial, "Keep weights of which no tensor is given");
  verb->example("sinter refit model.plan --weights model.onnx -o refitted.plan");
  verb->callback([options, &console = cli.console] { run_refit(*options, console); });
}

}  // namespace sinter::tools
