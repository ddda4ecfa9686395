// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <utility>

#include "ir/text/shown.h"
#include "ir/text/text.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/build_options.h"
#include "tools/cli/input_options.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/compile_text.h"
#include "tools/cli/text/sharding_text.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/api.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/options/eight_bit.h"
#include "tools/compiler/options/option_values.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {
namespace {

/// model.onnx -> model.plan, and a folder (whose name may have dots) -> folder.plan beside it.
std::string default_path(const std::string& model) {
  std::filesystem::path path(model);
  if (std::error_code none; std::filesystem::is_directory(path, none))
    return (path.has_filename() ? path : path.parent_path()).string() + ".plan";
  return path.replace_extension(".plan").string();
}

struct CompileArguments {
  BuildTexts build;
  InputTexts inputs;
  std::string output;
  VerifyOptions accuracy;
};

/// --stop-after: prints the graph instead of compiling a plan.
int print_graphs(const BuildOptions& options, const Console& console) {
  return run_each_entry(options, {}, console, [](const BuildOptions& build, const Console& own) {
    Reporter reporter(build.monitor);
    const auto model = import_model(build.model, build, reporter);
    const auto passes = run_passes(build, model, resolve_target(build.target), reporter);
    own.print(ir::print(passes.graph));
    own.result({{"graph", ir::print(passes.graph)}});
    return 0;
  });
}

/// --explain-sharding: says how devices share the model instead of compiling a plan.
int explain_sharding(BuildOptions& build, const Console& console) {
  if (build.tensor_parallel == 1)
    throw usage_error("--explain-sharding is about --tensor-parallel N");
  build.stop_after = "shard";
  return run_each_entry(build, {}, console, [](const BuildOptions& options, const Console& own) {
    Reporter reporter(options.monitor);
    const auto model = import_model(options.model, options, reporter);
    const auto passes = run_passes(options, model, resolve_target(options.target), reporter);
    const fusion::ShardingReport& report = passes.context.sharded;
    for (const std::string& line : sharding_text(report, options.tensor_parallel)) own.print(line);
    own.result({{"sharding", to_json(report, options.tensor_parallel)}});
    return 0;
  });
}

int run_compile(const CompileArguments& options, const Console& console) {
  BuildRequest request(options.build, console);
  BuildOptions& build = request.options();
  if (options.build.is_given("--explain-sharding")) return explain_sharding(build, console);
  if (!build.stop_after.empty()) return print_graphs(build, console);
  const bool verify = options.build.is_given("--verify");
  if (options.build.is_given("--max-error"))
    set_option(*find_option("--max-error"), options.build.text("--max-error"), build);
  VerifyOptions accuracy = options.accuracy;
  if (options.build.is_given("--max-error")) {
    const bool has_budget =
        has_eight_bit(build.precision) || build.attention_precision != AttentionPrecision::kModel;
    if (!verify && !has_budget)
      throw usage_error(
          "--max-error is about --verify, or --precision int8 or fp8, or --attention-precision "
          "fp8");
    accuracy.max_error = std::exchange(build.eight_bit.max_error, EightBitOptions().max_error);
    if (has_budget) build.eight_bit.max_error = accuracy.max_error;
  }
  build.tuning.operator_libraries = accuracy.session.operator_libraries;
  if (!build.tuning.operator_libraries.empty() && !verify && build.tuning.seconds <= 0)
    throw usage_error("--op-library is for --verify and --tune, which run the plan");
  if (verify) {
    build.verify = accuracy;
    build.verify->inputs = parse(options.inputs);
  } else {
    for (const auto& [name, shape] : parse(options.inputs).shapes)
      if (!build.min_shapes.emplace(name, shape).second ||
          !build.max_shapes.emplace(name, shape).second)
        throw usage_error("--shapes and --minShapes or --maxShapes of input '{}'", name);
  }
  std::string path = options.output;
  if (path.empty()) path = default_path(options.build.model);
  files::check_output(path, tensor_paths(options.build.list("--constant")));
  // As compile_to_file, with the hooks of --dump-ir.
  const CompileResult result =
      at_boundary(build.monitor, OptionNames::kFlags,
                  [&](Reporter& reporter) { return compile_model(build, path, reporter); });
  const auto print_all = [&](const std::vector<std::string>& lines) {
    for (const auto& line : lines) console.print(line);
  };
  if (result.accuracy) {
    console.print("against the reference, {}, {}", result.accuracy->source,
                  ir::shown(result.accuracy->shapes));
    console.print(accuracy_text(*result.accuracy, "--max-error"));
  }
  if (result.ok()) {
    if (options.build.is_given("--explain-fusion"))
      print_all(fusion_text(result, options.build.text("--explain-fusion") == "all"));
    console.print("{}: {}, {} nodes -> {} steps{} for {}", path,
                  format_bytes(static_cast<double>(result.plan_bytes)), result.nodes_imported,
                  result.steps,
                  result.target == "cpu" ? ""
                                         : fmt::format(", {} kernels ({} from the cache)",
                                                       result.kernels, result.kernels_from_cache),
                  result.target);
    print_all(states_text(result.states));
    print_all(caches_text(result.caches));
    print_all(layers_text(result, !options.build.list("--calibration").empty()));
    console.print("import {:.0f} ms, passes {:.0f} ms, code {:.0f} ms", result.import_ms,
                  result.passes_ms, result.codegen_ms);
    if (result.tuning) print_all(tuning_text(*result.tuning));
  }
  console.result(to_json(result));
  return result.ok() ? 0 : 1;
}

}  // namespace

void add_compile(Cli& cli) {
  auto options = std::make_shared<CompileArguments>();
  auto* verb = cli.app.add_subcommand("compile", "Compile an ONNX model into a plan");
  verb->add_option("model", options->build.model,
                   "ONNX or GGUF file, Hugging Face folder, or Graph text")
      ->required();
  verb->group("Output");
  verb->add_option("-o,--output FILE", options->output,
                   "Plan file (default: the model's name with .plan)");
  add_build_options(*verb, options->build, OptionVerbs::kCompile);
  Option* verify = verb->get_option("--verify");
  add_input_options(*verb, options->inputs);
  add_session_options(*verb, options->accuracy.session);
  for (const auto* name : {"--inputs", "--input-range", "--seed", "--device"})
    verb->get_option(name)->needs(verify);
  verb->get_option("--shapes")
      ->describe(
          "The only shapes of inputs: NAME:1x64,NAME:1x64; with --verify those that it runs "
          "with, and the plan takes others, too");
  verb->example("sinter compile model.onnx -o model.plan", "for the GPU found here, else the CPU");
  verb->example("sinter compile model.onnx --target=cpu --verify --max-error=1e-3",
                "measure the error, and record it in the plan");
  verb->example("sinter compile model.onnx -o small.plan --weights=int8 --dim batch=1..8");
  verb->example("sinter compile decoder.onnx -o decoder.plan --serve=positions=8192",
                "a decoder for texts of up to 8,192 tokens");
  verb->example("sinter compile model.onnx -o gpu.plan --target=cuda:sm_90,sm_80 --precision=fp16",
                "for GPUs that need not be here");
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run_compile(*options, console);
  });
}

}  // namespace sinter::tools
