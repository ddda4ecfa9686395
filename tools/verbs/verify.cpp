#include <memory>

#include <fmt/format.h>

#include "tools/support/accuracy.h"
#include "tools/verbs/verbs.h"

namespace sinter::tools {
namespace {

struct Options {
  BuildOptions build;
  AccuracyOptions accuracy;
};

int run(const Options& options, const Console& console) {
  const auto built = build_plan(options.build, console);
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
  verb->add_option(
      "--tolerance", options->accuracy.bound,
      "Most relative error ||a - b|| / ||b||; by default 2e-5, 5e-3 for fp16, 4e-2 "
      "for bf16, 3e-3 for tf32; on CUDA at least 2e-4 for float16 outputs, 1e-3 for bfloat16");
  verb->add_option("--runs", options->accuracy.runs, "Runs whose results must have the same bits")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--save", options->accuracy.save,
                   "Write outputs.npz, reference.npz and rounded.npz (the reference with each "
                   "operator's result rounded to its type) into this folder")
      ->check(CLI::ExistingDirectory);
  verb->add_option("--device", options->accuracy.session.device, "CUDA device")
      ->capture_default_str();
  verb->add_option("--threads", options->accuracy.session.threads, "CPU threads; 0 is all cores");
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run(*options, console);
  });
}

}  // namespace sinter::tools
