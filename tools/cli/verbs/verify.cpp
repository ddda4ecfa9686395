// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/shown.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/build_options.h"
#include "tools/cli/input_options.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/compile_text.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/verify/verify_regions.h"

namespace sinter::tools {
namespace {

struct VerifyArguments {
  BuildTexts build;
  InputTexts inputs;
  VerifyOptions accuracy;
  bool per_node = false, bisect = false;
  std::string reduce;
};

std::string origins_text(const std::vector<std::string>& origins, std::size_t most) {
  const auto count = std::min(most, origins.size());
  const auto end = origins.begin() + static_cast<std::ptrdiff_t>(count);
  return fmt::format(
      "{}{}", fmt::join(origins.begin(), end, ", "),
      count < origins.size() ? fmt::format(" and {} more", origins.size() - count) : "");
}

std::string regions_text(const std::vector<RegionResult>& regions) {
  constexpr std::size_t kOrigins = 3;
  Rows rows = {{"region", "kind", "relative error", "bound", "", "from"}};
  for (const RegionResult& region : regions)
    rows.push_back({region.name, region.kind, fmt::format("{:.2e}", region.error),
                    fmt::format("{:.1e}", region.bound),
                    region.ok()              ? "ok"
                    : region.failure.empty() ? "DIFFERS"
                                             : "FAILS",
                    origins_text(region.origins, kOrigins)});
  std::string text = format_table(rows);
  for (const RegionResult& region : regions)
    if (!region.failure.empty()) text += fmt::format("\n{} fails: {}", region.name, region.failure);
  return text;
}

int show_regions(const BuildResult& built, const BuildOptions& build, const VerifyOptions& options,
                 const Reporter& reporter, const Console& console) {
  const RegionsReport report = verify_regions(built, options, reporter);
  console.print(regions_text(report.regions));
  console.print("{} for {}: {} of {} regions are above their bounds on the reference's inputs{}",
                build.model.path, built.target.to_string(), report.wrong, report.regions.size(),
                report.specialised ? ", compiled for these shapes alone" : "");
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RegionResult& region : report.regions) list.push_back(to_json(region));
  console.result({{"model", build.model.path},
                  {"target", built.target.to_string()},
                  {"specialised", report.specialised},
                  {"regions", list}});
  return report.wrong == 0 ? 0 : 1;
}

std::string rounding_loss_text(const RoundingLoss& loss, std::string_view type) {
  std::string text = fmt::format(
      "in {} the outputs are off by {:.2e}, of which rounding matmuls explains {:.2e} and rounding "
      "constants {:.2e}",
      type, loss.all, loss.matmuls, loss.constants);
  if (!loss.value.empty())
    text += fmt::format(
        "\nthe value that loses most is '{}' (from {}): alone it puts them off by {:.2e}",
        ir::shown(loss.value), origins_text(loss.origins, 3), loss.alone);
  return text;
}

std::string overflow_text(const Overflow& overflow) {
  const std::string name = ir::shown(overflow.origins.empty() ? "" : overflow.origins[0]);
  return fmt::format(
      "{} node(s) make values above 65,504, which is float16's largest; the first is '{}', with up "
      "to {:.4g}: --keep '{}' leaves it float32, --calibration FILE.npz with samples of the inputs "
      "finds all of them",
      overflow.nodes, name, overflow.largest, name);
}

int show_bisection(const BuildResult& built, const BuildOptions& build,
                   const VerifyOptions& options, const Reporter& reporter, const Console& console) {
  const BisectReport report = bisect(built, build, options, reporter);
  nlohmann::ordered_json json = {{"model", build.model.path},
                                 {"target", built.target.to_string()},
                                 {"pass", nullptr},
                                 {"region", nullptr}};
  if (!report.pass.empty()) {
    console.print("pass '{}' is the first that changes what the graph computes", report.pass);
    json["pass"] = report.pass;
  } else if (report.region) {
    console.print("the first region above its bound is number {} of {}:", report.place + 1,
                  report.regions);
    console.print(regions_text({*report.region}));
    json["region"] = to_json(*report.region);
    json["place"] = report.place;
    if (report.own_error) {
      console.print("its own error, on the reference's inputs, is {:.2e}: {}", *report.own_error,
                    report.own_ok ? "it passes on what those before it bring" : "it is wrong");
      json["own_error"] = *report.own_error;
    }
  } else {
    console.print("all {} regions are within their bounds{}", report.regions,
                  report.ok() ? ""
                              : ", but the outputs are not: their bounds are tighter (give "
                                "--tolerance for all), or it only happens where intermediate "
                                "results share memory (`sinter inspect --memory`)");
    json["outputs"] = to_json(*report.outputs);
  }
  if (report.overflow) {
    console.print(overflow_text(*report.overflow));
    json["overflow"] = to_json(*report.overflow);
  }
  if (report.loss) {
    console.print(rounding_loss_text(*report.loss, to_string(build.precision)));
    json["rounding"] = to_json(*report.loss);
  }
  console.result(json);
  return report.ok() ? 0 : 1;
}

int show_reduction(const BuildResult& built, const BuildOptions& build,
                   const VerifyOptions& options, const std::string& path, const Reporter& reporter,
                   const Console& console) {
  const ReduceReport report = reduce_failure(built, build, options, path, reporter);
  if (!report.region) {
    console.print("all {} regions are within their bounds: nothing to reduce", report.regions);
    console.result({{"region", nullptr}});
    return 0;
  }
  console.print("{}: {} of {} operators left after {} trials{}\n{}", report.path, report.operators,
                report.operators_before, report.trials,
                report.inputs.empty() ? "" : ", inputs in " + report.inputs, report.command);
  console.result({{"graph", report.path},
                  {"inputs", report.inputs},
                  {"region", to_json(*report.region)},
                  {"operators_before", report.operators_before},
                  {"operators", report.operators},
                  {"trials", report.trials},
                  {"command", report.command}});
  return 1;
}

int run_verify(const VerifyArguments& options, const Console& console) {
  const BuildRequest request(options.build, console);
  const BuildOptions& build = request.options();
  VerifyOptions how = options.accuracy;
  how.inputs = parse(options.inputs);
  if (build.tensor_parallel != 1 && (options.per_node || options.bisect || !options.reduce.empty()))
    throw usage_error(
        "--per-node, --bisect and --reduce compare the regions of one device: leave "
        "--tensor-parallel out");
  if (options.per_node || options.bisect)
    return run_each_entry(
        build, how.inputs, console, [&](const BuildOptions& one, const Console& own) {
          Reporter reporter(one.monitor);
          const auto built = build_plan(one, reporter);
          return options.per_node ? show_regions(built, one, how, reporter, own)
                                  : show_bisection(built, one, how, reporter, own);
        });
  std::vector<std::string> read = tensor_paths(options.inputs.inputs.files);
  read.push_back(options.build.model);
  if (!how.save_folder.empty())
    for (const char* name : {"outputs", "reference", "rounded"})
      files::check_output(fmt::format("{}/{}.npz", how.save_folder, name), read);
  files::check_output(options.reduce, read);
  Reporter reporter(build.monitor);
  if (!options.reduce.empty()) require_one_entry(build, "--reduce");
  const auto built = build_plan(build, reporter);
  if (!options.reduce.empty())
    return show_reduction(built, build, how, options.reduce, reporter, console);
  const auto accuracy = measure_accuracy(built, build, how, reporter);
  console.print("{} for {} against the reference, {}", options.build.model,
                built.target.to_string(), ir::shown(accuracy.shapes));
  console.print(accuracy_text(accuracy, "--tolerance"));
  console.result({{"model", options.build.model},
                  {"target", built.target.to_string()},
                  {"shapes", accuracy.shapes},
                  {"same_bits", accuracy.same_bits},
                  {"outputs", to_json(accuracy)}});
  return accuracy.ok() ? 0 : 1;
}

}  // namespace

void add_verify(Cli& cli) {
  auto options = std::make_shared<VerifyArguments>();
  auto* verb = cli.app.add_subcommand(
      "verify", "Compare a compiled model with the reference, output by output");
  verb->add_option("model", options->build.model,
                   "ONNX or GGUF file, Hugging Face folder, or Graph text")
      ->required();
  add_build_options(*verb, options->build, OptionVerbs::kPasses);
  add_input_options(*verb, options->inputs);
  verb->group("What to compare");
  verb->add_option("--tolerance E", options->accuracy.max_error,
                   "Most relative error ||a - b|| / ||b||; by default 2e-5, 5e-3 for fp16, 3e-2 "
                   "for bf16, 3e-3 for tf32, 5e-2 for --weights int8, 3e-1 for int4; on CUDA at "
                   "least 2e-4 for float16 outputs, 1e-3 for bfloat16");
  auto* per_node = verb->add_flag(
      "--per-node", options->per_node,
      "Each fused region on the inputs that the reference gives it, worst first; by default four "
      "times what rounding brings: 2e-3 for float16, 1.6e-2 for bfloat16, 2e-5 for float32");
  auto* bisect = verb->add_flag("--bisect", options->bisect,
                                "The first pass that changes what is computed, else the first "
                                "region above its bound as errors propagate");
  auto* reduce = verb->add_option("--reduce FILE", options->reduce,
                                  "Write the smallest Graph text that still fails to this file");
  per_node->excludes(bisect)->excludes(reduce);
  bisect->excludes(reduce);
  verb->add_option("--runs N", options->accuracy.runs, "Runs whose results must have the same bits")
      ->check_positive()
      ->capture_default_str();
  verb->add_option("--save FOLDER", options->accuracy.save_folder,
                   "Write outputs.npz, reference.npz and rounded.npz (the reference with each "
                   "operator's result rounded to its type) into this folder")
      ->check_existing_folder();
  add_session_options(*verb, options->accuracy.session);
  verb->add_threads_option();
  verb->example("sinter verify model.onnx --target=cpu");
  verb->example("sinter verify model.onnx --per-node", "the error of each fused region");
  verb->example("sinter verify model.onnx --bisect", "the first pass or region that goes wrong");
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run_verify(*options, console);
  });
}

}  // namespace sinter::tools
