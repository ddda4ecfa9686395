#include <memory>

#include <fmt/format.h>

#include "ir/reference/evaluate.h"
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
  double tolerance = 0;
};

double default_tolerance(const std::string& precision) {
  // Relative errors of whole models: float32 sums in another order, 10-bit and 8-bit mantissas.
  if (precision == "fp16") return 5e-3;
  if (precision == "bf16") return 4e-2;
  if (precision == "tf32") return 3e-3;
  return 2e-5;
}

/// Kernels compute 16-bit results to a sixteenth of their rounding (--math): some round the other
/// way.
double tolerance_of(DType type, const BuildOptions& build, bool cuda) {
  const double base = default_tolerance(build.precision);
  if (!cuda || build.precise_math) return base;
  return type == DType::kFloat16    ? std::max(base, 2e-4)
         : type == DType::kBFloat16 ? std::max(base, 1e-3)
                                    : base;
}

int run(const Options& options, const Console& console) {
  auto built = build_plan(options.build, console);
  const auto plan = load_built(built.plan);
  const auto inputs = make_inputs(plan.inputs(), options.inputs);
  Session session(plan, options.session);
  set_inputs(session, plan, inputs);
  session.run();
  const auto outputs = get_outputs(session, plan);

  Progress progress(console, "reference");
  ir::EvaluateOptions evaluate;
  evaluate.keep_wide = true;
  std::size_t done = 0;
  evaluate.on_node = [&](const ir::Node&, std::span<const ir::Tensor>) {
    progress.update(++done, built.model.graph.nodes().size());
  };
  const auto expected = ir::evaluate(built.model.graph, inputs, evaluate);

  std::vector<std::vector<std::string>> rows = {
      {"output", "relative error", "largest difference", ""}};
  nlohmann::ordered_json report = {{"model", options.build.model},
                                   {"target", built.target.to_string()},
                                   {"shapes", describe_shapes(plan, inputs)}};
  bool passed = true;
  const auto bindings = plan.outputs();
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const double error = relative_error(outputs[i], expected[i]);
    const double tolerance =
        options.tolerance > 0 ? options.tolerance
                              : tolerance_of(outputs[i].dtype(), options.build, built.target.cuda);
    const bool ok = error <= tolerance;
    passed = passed && ok;
    rows.push_back({bindings[i].name, fmt::format("{:.2e}", error),
                    fmt::format("{:.2e}", largest_difference(outputs[i], expected[i])),
                    ok ? "ok" : fmt::format("DIFFERS (--tolerance is {:.1e})", tolerance)});
    report["outputs"].push_back({{"output", bindings[i].name},
                                 {"relative_error", error},
                                 {"tolerance", tolerance},
                                 {"ok", ok}});
  }
  console.print(fmt::format("{} for {} against the reference, {}", options.build.model,
                            built.target.to_string(), describe_shapes(plan, inputs)));
  console.print(format_table(rows));
  console.result(report);
  return passed ? 0 : 1;
}

}  // namespace

void add_verify(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand(
      "verify", "Compare a compiled model with the reference, output by output");
  verb->add_option("model", options->build.model, "ONNX file")->required();
  add_build_options(*verb, options->build, true);
  add_input_options(*verb, options->inputs);
  verb->add_option(
      "--tolerance", options->tolerance,
      "Most relative error ||a - b|| / ||b||; by default 2e-5, 5e-3 for fp16, 4e-2 "
      "for bf16, 3e-3 for tf32; on CUDA at least 2e-4 for float16 outputs, 1e-3 for bfloat16");
  verb->add_option("--device", options->session.device, "CUDA device")->capture_default_str();
  verb->add_option("--threads", options->session.threads, "CPU threads; 0 is all cores");
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run(*options, console);
  });
}

}  // namespace sinter::tools
