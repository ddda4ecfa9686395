#include <memory>

#include <fmt/format.h>

#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/each_entry.h"
#include "tools/compiler/verify/accuracy.h"
#include "tools/compiler/verify/verify_regions.h"

namespace sinter::tools {
namespace {

struct Options {
  BuildOptions build;
  AccuracyOptions accuracy;
  bool per_node = false, bisect = false;
  std::string reduce;
};

int run(const Options& options, const Console& console) {
  if (options.per_node || options.bisect)
    return run_each_entry(options.build, options.accuracy.inputs, console,
                          [&](const BuildOptions& build, const Console& own) {
                            const auto built = build_plan(build, own);
                            return options.per_node
                                       ? verify_regions(built, build, options.accuracy, own)
                                       : bisect(built, build, options.accuracy, own);
                          });
  if (!options.reduce.empty()) require_one_entry(options.build, "--reduce");
  const auto built = build_plan(options.build, console);
  if (!options.reduce.empty())
    return reduce_failure(built, options.build, options.accuracy, options.reduce, console);
  const auto accuracy = measure_accuracy(built, options.build, options.accuracy, console);
  console.print(fmt::format("{} for {} against the reference, {}", options.build.model,
                            built.target.to_string(), accuracy.shapes));
  console.print(format_accuracy(accuracy, "--tolerance"));
  console.result({{"model", options.build.model},
                  {"target", built.target.to_string()},
                  {"shapes", accuracy.shapes},
                  {"same_bits", accuracy.same_bits},
                  {"outputs", to_json(accuracy)}});
  return accuracy.ok() ? 0 : 1;
}

}  // namespace

void add_verify(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand(
      "verify", "Compare a compiled model with the reference, output by output");
  verb->add_option("model", options->build.model, "ONNX file, or Graph text")->required();
  add_build_options(*verb, options->build, true);
  add_input_options(*verb, options->accuracy.inputs);
  verb->add_option("--tolerance", options->accuracy.bound,
                   "Most relative error ||a - b|| / ||b||; by default 2e-5, 5e-3 for fp16, 3e-2 "
                   "for bf16, 3e-3 for tf32, 5e-2 for --weights int8, 3e-1 for int4; on CUDA at "
                   "least 2e-4 for float16 outputs, 1e-3 for bfloat16");
  auto* per_node =
      verb->add_flag("--per-node", options->per_node,
                     "Each fused region on the inputs that the reference gives it, worst first; by "
                     "default four times what rounding brings: 2e-3 for float16, 1.6e-2 for "
                     "bfloat16, 2e-5 for float32");
  auto* bisect = verb->add_flag("--bisect", options->bisect,
                                "The first pass that changes what is computed, else the first "
                                "region above its bound as errors propagate");
  auto* reduce = verb->add_option("--reduce", options->reduce,
                                  "Write the smallest Graph text that still fails to this file");
  per_node->excludes(bisect)->excludes(reduce);
  bisect->excludes(reduce);
  verb->add_option("--runs", options->accuracy.runs, "Runs whose results must have the same bits")
      ->check_positive()
      ->capture_default_str();
  verb->add_option("--save", options->accuracy.save,
                   "Write outputs.npz, reference.npz and rounded.npz (the reference with each "
                   "operator's result rounded to its type) into this folder")
      ->check_existing_folder();
  verb->add_option("--device", options->accuracy.session.device, "CUDA device")
      ->capture_default_str();
  verb->add_option("--threads", options->accuracy.session.threads,
                   "CPU threads, at most the pool's; 0: all of them");
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run(*options, console);
  });
}

}  // namespace sinter::tools
