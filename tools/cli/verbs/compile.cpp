#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "ir/text/text.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/each_entry.h"
#include "tools/compiler/tuning/tuning.h"
#include "tools/compiler/verify/accuracy.h"

namespace sinter::tools {
namespace {

struct Options {
  BuildOptions build;
  std::string output;
  bool verify = false;
  AccuracyOptions accuracy;
  TuningOptions tuning;
};

nlohmann::ordered_json states_of(const codegen::CompiledPlan& plan) {
  nlohmann::ordered_json states = nlohmann::ordered_json::array();
  for (const auto& state : plan.states)
    states.push_back({{"input", state.input},
                      {"output", state.output},
                      {"in_place", state.in_place},
                      {"why_copied", state.reason}});
  return states;
}

/// Those that are changed in place in one line, the others one by one.
void print_states(const codegen::CompiledPlan& plan, const Console& console) {
  std::string in_place;
  std::size_t count = 0;
  for (const auto& state : plan.states) {
    if (!state.in_place) {
      console.print(fmt::format("state {} -> {}: copied after each run: {}", state.input,
                                state.output, state.reason));
      continue;
    }
    constexpr std::size_t kMostNames = 4;
    if (++count <= kMostNames) in_place += (count > 1 ? ", " : "") + state.input;
    if (count == kMostNames + 1) in_place += ", ..";
  }
  if (count > 0) console.print(fmt::format("{} states are changed in place: {}", count, in_place));
}

nlohmann::ordered_json summary(const BuildResult& result, const std::string& path,
                               std::uint64_t file_bytes) {
  const auto& meta = result.plan.parts.meta;
  nlohmann::ordered_json passes = nlohmann::ordered_json::array();
  for (const auto& pass : result.pipeline.times)
    passes.push_back({{"pass", pass.name},
                      {"ms", pass.milliseconds},
                      {"nodes_before", pass.nodes_before},
                      {"nodes_after", pass.nodes_after}});
  return {{"plan", path},
          {"bytes", file_bytes},
          {"target", result.target.to_string()},
          {"nodes_imported", result.model.node_count},
          {"steps", meta.steps.size()},
          {"kernels", result.plan.stats.kernels},
          {"kernels_from_cache", result.plan.stats.cache_hits},
          {"import_ms", result.times.import_ms},
          {"passes_ms", result.times.passes_ms},
          {"codegen_ms", result.times.codegen_ms},
          {"passes", passes},
          {"states", states_of(result.plan)},
          {"layers", layers_to_json(result.pipeline.context.layers)},
          {"precision_notes", result.pipeline.context.precision_notes}};
}

void explain(const std::vector<fusion::Decision>& decisions, const Console& console) {
  for (const auto& decision : decisions)
    console.print(fmt::format("{} {} -> {}\n     {}", decision.fused ? "[x]" : "[ ]",
                              decision.producer, decision.consumer, decision.reason));
}

/// Measures the plan's errors and records them in its manifest, with what they were measured on.
Accuracy record_accuracy(const Options& options, BuildResult& result, const Console& console) {
  Accuracy accuracy = with_context("--verify runs the plan", [&] {
    return measure_accuracy(result, options.build, options.accuracy, console);
  });
  auto& manifest = *result.plan.parts.meta.manifest;
  for (const auto& output : accuracy.outputs) {
    auto entry = std::make_unique<plan::fb::OutputErrorT>();
    entry->output = output.name;
    entry->relative_error = output.relative_error;
    manifest.measured.push_back(std::move(entry));
  }
  auto entry = std::make_unique<plan::fb::OptionT>();
  entry->key = "verify";
  entry->value = fmt::format("{}, {}", accuracy.source, accuracy.shapes);
  manifest.options.push_back(std::move(entry));
  return accuracy;
}

int run(const Options& options, const Console& console) {
  if (!options.build.stop_after.empty())
    return run_each_entry(options.build, {}, console,
                          [](const BuildOptions& build, const Console& own) {
                            const auto target = resolve_target(build.target);
                            const auto model = import_with_shapes(build);
                            const auto passes = run_passes(build, model, target, own);
                            own.print(ir::print(passes.graph));
                            own.result({{"graph", ir::print(passes.graph)}});
                            return 0;
                          });
  std::string path = options.output;
  if (path.empty())
    path = std::filesystem::path(options.build.model).replace_extension(".plan").string();
  std::optional<Tuning> tuning;
  BuildOptions build = options.build;
  if (options.tuning.is_asked_for()) {
    tuning.emplace(options.tuning, path, console);
    build.tune = [&](const auto& model, const auto& entries, const auto& target, auto& compile) {
      tuning->choose(options.build.target, model, entries, target, compile);
    };
  }
  auto result = build_plan(build, console);
  nlohmann::ordered_json measured;
  if (options.verify) {
    const auto accuracy = record_accuracy(options, result, console);
    measured = to_json(accuracy);
    console.print(fmt::format("against the reference, {}, {}", accuracy.source, accuracy.shapes));
    console.print(format_accuracy(accuracy, "--max-error"));
    if (!accuracy.ok()) {
      console.note(fmt::format("the error is above --max-error: {} was not written", path));
      console.result({{"plan", nullptr}, {"measured", measured}});
      return 1;
    }
  }
  plan::write_plan(result.plan.parts, path);
  const auto bytes = std::filesystem::file_size(path);
  if (options.build.explain_fusion) explain(result.pipeline.context.decisions, console);
  console.print(fmt::format(
      "{}: {}, {} nodes -> {} steps, {} for {}", path, format_bytes(static_cast<double>(bytes)),
      result.model.node_count, result.plan.parts.meta.steps.size(),
      result.target.cuda ? fmt::format("{} kernels ({} from the cache)", result.plan.stats.kernels,
                                       result.plan.stats.cache_hits)
                         : "no code",
      result.target.to_string()));
  print_states(result.plan, console);
  const auto& context = result.pipeline.context;
  const double before_rounding =
      bytes_without_rounding(context.layers, context.precision, context.target.quantised_matmul,
                             static_cast<double>(bytes));
  print_layers(context.layers, before_rounding, static_cast<double>(bytes), options.build.weights,
               console);
  console.print(fmt::format("import {:.0f} ms, passes {:.0f} ms, code {:.0f} ms",
                            result.times.import_ms, result.times.passes_ms,
                            result.times.codegen_ms));
  auto report = summary(result, path, bytes);
  if (!context.layers.empty()) report["bytes_without_rounding"] = before_rounding;
  if (options.verify) report["measured"] = measured;
  if (tuning) {
    tuning->finish(result.plan);
    report["tuning"] = tuning->report();
  }
  console.result(report);
  return 0;
}

}  // namespace

void add_compile(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand("compile", "Compile an ONNX model into a plan");
  verb->add_option("model", options->build.model, "ONNX file, or Graph text")->required();
  verb->add_option("-o,--output", options->output,
                   "Plan file (default: the model's name with .plan)");
  add_build_options(*verb, options->build, true);
  auto* verify = verb->add_flag("--verify", options->verify,
                                "Run the plan once and record its error against the float64 "
                                "reference; above --max-error no plan is written");
  verb->add_option("--max-error", options->accuracy.bound,
                   "Most relative error of an output; by default as `verify --tolerance`");
  add_input_options(*verb, options->accuracy.inputs);
  verb->add_option("--device", options->accuracy.session.device, "CUDA device of --verify")
      ->capture_default_str();
  for (const auto* name :
       {"--max-error", "--inputs", "--shapes", "--input-range", "--seed", "--device"})
    verb->get_option(name)->needs(verify);
  add_tuning_options(*verb, options->tuning);
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run(*options, console);
  });
}

}  // namespace sinter::tools
