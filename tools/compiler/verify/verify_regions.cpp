#include "tools/compiler/verify/verify_regions.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "ir/text/text.h"
#include "tools/compiler/options/graph_file.h"
#include "tools/compiler/verify/reduce.h"
#include "tools/compiler/verify/region_check.h"

namespace sinter::tools {
namespace {

std::vector<ir::Tensor> inputs_of(const BuildResult& built, const AccuracyOptions& options) {
  return make_inputs(describe_inputs(built.model.graph), options.inputs);
}

RegionOptions region_options(const BuildResult& built, const AccuracyOptions& options) {
  RegionOptions result;
  result.compile = built.compile;
  result.bound = options.bound;
  return result;
}

/// Errors propagate, so that a region's bound is that of a model's output at least.
RegionOptions propagated_options(const BuildResult& built, const BuildOptions& build,
                                 const AccuracyOptions& options) {
  RegionOptions result = region_options(built, options);
  result.least_bound = default_bound(DType::kFloat32, build, built.target.cuda);
  return result;
}

double excess(const RegionResult& region) {
  return region.error == 0  ? 0
         : region.bound > 0 ? region.error / region.bound
                            : std::numeric_limits<double>::infinity();
}

std::string origins_text(const RegionResult& region, std::size_t most) {
  const auto count = std::min(most, region.origins.size());
  const auto end = region.origins.begin() + static_cast<std::ptrdiff_t>(count);
  return fmt::format("{}{}", fmt::join(region.origins.begin(), end, ", "),
                     count < region.origins.size()
                         ? fmt::format(" and {} more", region.origins.size() - count)
                         : "");
}

nlohmann::ordered_json to_json(const RegionResult& region) {
  return {{"region", region.name},     {"family", region.family}, {"relative_error", region.error},
          {"tolerance", region.bound}, {"ok", region.ok()},       {"origins", region.origins}};
}

std::string format_regions(const std::vector<RegionResult>& regions) {
  constexpr std::size_t kOrigins = 3;
  std::vector<std::vector<std::string>> rows = {
      {"region", "family", "relative error", "bound", "", "from"}};
  for (const RegionResult& region : regions)
    rows.push_back({region.name, region.family, fmt::format("{:.2e}", region.error),
                    fmt::format("{:.1e}", region.bound), region.ok() ? "ok" : "DIFFERS",
                    origins_text(region, kOrigins)});
  return format_table(rows);
}

Console quiet(const Console& console) {
  Console result = console;
  result.quiet = true;
  return result;
}

/// The largest error of a graph's outputs in units of their bounds.
double worst_output(const BuildOptions& build, const AccuracyOptions& options, bool cuda,
                    const std::vector<ir::Tensor>& found, const std::vector<ir::Tensor>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double bound =
        options.bound > 0 ? options.bound : default_bound(found[i].dtype(), build, cuda);
    worst = std::max(worst, relative_error(found[i], expected[i]) / bound);
  }
  return worst;
}

/// The first pass after which the reference evaluation of the graph is not the model's any more;
/// empty if that is so after none.
std::string first_wrong_pass(const BuildResult& built, const BuildOptions& build,
                             const AccuracyOptions& options, const std::vector<ir::Tensor>& inputs,
                             const Console& console) {
  const auto expected = evaluate_reference(built.model.graph, inputs, true, console);
  const auto differs = [&](const ir::Graph& graph) {
    return worst_output(build, options, built.target.cuda,
                        evaluate_reference(graph, inputs, true, console), expected) > 1;
  };
  if (is_fused(built.model.graph) || !differs(built.pipeline.graph)) return "";
  const auto& times = built.pipeline.times;  // of the passes that ran
  std::size_t right = 0, wrong = times.size();
  while (right + 1 < wrong) {
    const std::size_t middle = (right + wrong) / 2;
    BuildOptions until = build;
    until.stop_after = times[middle - 1].name;
    until.dump_ir.clear();
    const auto run = run_passes(until, built.model, built.target, quiet(console));
    (differs(run.graph) ? wrong : right) = middle;
  }
  return times[wrong - 1].name;
}

/// The reference's inputs of one region, and the region alone.
TestCase region_alone(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
                      std::size_t region) {
  const ir::Node& node = graph.nodes()[region];
  std::map<ir::ValueId, ir::Tensor> stored;
  for (std::size_t i = 0; i < inputs.size(); ++i) stored[graph.inputs()[i]] = inputs[i];
  ir::EvaluateOptions evaluate;
  evaluate.keep_wide = true;
  evaluate.on_node = [&](const ir::Node& made, std::span<const ir::Tensor> results) {
    for (std::size_t k = 0; k < results.size(); ++k)
      stored[made.outputs[k]] =
          ir::reference::convert(results[k], graph.type(made.outputs[k]).dtype);
  };
  ir::evaluate(graph, inputs, evaluate);

  TestCase test;
  ir::GraphBuilder builder("reduced");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ir::ValueId> operands;
  for (const ir::ValueId input : node.inputs) {
    if (graph.is_constant(input)) {
      operands.push_back(builder.constant(graph.value(input).constant));
      continue;
    }
    operands.push_back(builder.input(fmt::format("in{}", test.inputs.size()), graph.type(input)));
    test.inputs.push_back(stored.at(input));
  }
  ir::GraphBuilder::OriginScope scope(builder, node.origins);
  const auto results = builder.add_multi(node.op->name, operands, node.attrs, node.body);
  for (std::size_t k = 0; k < results.size(); ++k)
    builder.output(fmt::format("out{}", k), results[k]);
  test.graph = builder.finish();
  return test;
}

/// Everything up to one region, in single operators.
TestCase up_to(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs, std::size_t region) {
  ir::GraphBuilder builder("reduced");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::map<ir::ValueId, ir::ValueId> known;
  for (const ir::ValueId input : graph.inputs())
    known[input] = builder.input(graph.value(input).name, graph.type(input));
  for (std::size_t n = 0; n <= region; ++n) {
    const ir::Node& node = graph.nodes()[n];
    std::vector<ir::ValueId> operands;
    for (const ir::ValueId input : node.inputs)
      operands.push_back(graph.is_constant(input) ? builder.constant(graph.value(input).constant)
                                                  : known.at(input));
    ir::GraphBuilder::OriginScope scope(builder, node.origins);
    const auto results = builder.add_multi(node.op->name, operands, node.attrs, node.body);
    for (std::size_t k = 0; k < results.size(); ++k) {
      known[node.outputs[k]] = results[k];
      if (n == region) builder.output(fmt::format("out{}", k), results[k]);
    }
  }
  return {flattened(builder.finish()), inputs};
}

/// Judges test cases as `verify` will judge the file that is written.
class Judge {
 public:
  Judge(const BuildResult& built, const BuildOptions& build, const AccuracyOptions& options,
        RegionInputs mode, double error, const Console& console)
      : target_(built.target),
        build_(build),
        session_(options.session),
        mode_(mode),
        overflow_(std::isinf(error)),
        console_(quiet(console)),
        regions_(mode == RegionInputs::kReference ? region_options(built, options)
                                                  : propagated_options(built, build, options)) {
    // The graph has been lowered already.
    if (build_.precision != "tf32") build_.precision = "model";
    if (mode == RegionInputs::kPropagated)
      regions_.least_bound = default_bound(DType::kFloat32, build_, target_.cuda);
    build_.stop_after.clear();
    build_.dump_ir.clear();
  }

  /// A case that cannot be compiled fails in another way; so does one that is wrong by an infinite
  /// amount where the original is not.
  bool fails(const TestCase& test) const {
    try {
      frontend::ImportedModel model;
      model.graph = test.graph;
      const auto passes = run_passes(build_, model, target_, console_);
      const auto check = check_regions(passes.graph, test.inputs, mode_, regions_, session_);
      return std::any_of(check.regions.begin(), check.regions.end(), [&](const auto& region) {
        return !region.ok() && std::isinf(region.error) == overflow_;
      });
    } catch (const Error&) {
      return false;
    }
  }

 private:
  Target target_;
  BuildOptions build_;
  SessionOptions session_;
  RegionInputs mode_;
  bool overflow_;
  Console console_;
  RegionOptions regions_;
};

/// The file that is written, and how it is seen to fail.
struct Written {
  std::string text, inputs;  // paths; no inputs: seeded ones will do
  std::string command;
};

Written write_case(const std::string& path, TestCase test, const RegionResult& region,
                   RegionInputs mode, const Judge& judge, const BuildResult& built,
                   const AccuracyOptions& options) {
  Written written{path, "", ""};
  TestCase seeded = test;
  InputOptions seed;
  seeded.inputs = make_inputs(describe_inputs(test.graph), seed);
  if (!test.inputs.empty() && !judge.fails(seeded)) {
    NamedTensors named;
    for (std::size_t i = 0; i < test.inputs.size(); ++i)
      named.emplace_back(test.graph.value(test.graph.inputs()[i]).name, test.inputs[i]);
    written.inputs = std::filesystem::path(path).replace_extension(".npz").string();
    write_npz(written.inputs, named);
  }
  written.command = fmt::format(
      "sinter verify {} {} --target={}{}{}", path,
      mode == RegionInputs::kReference ? "--per-node" : "--bisect", built.target.to_string(),
      written.inputs.empty() ? "" : " --inputs " + written.inputs,
      options.bound > 0 ? fmt::format(" --tolerance={:g}", options.bound) : "");
  ir::PrintOptions print;
  print.inline_limit = std::numeric_limits<std::size_t>::max();
  std::ofstream file(path);
  file << fmt::format("# region {}, relative error {:.2e}, bound {:.1e}\n# of: {}\n# {}\n",
                      region.name, region.error, region.bound, fmt::join(region.origins, ", "),
                      written.command)
       << ir::print(test.graph, print);
  if (!file.flush()) throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be written", path));
  return written;
}

}  // namespace

int verify_regions(const BuildResult& built, const BuildOptions& build,
                   const AccuracyOptions& options, const Console& console) {
  const auto inputs = inputs_of(built, options);
  auto check = check_regions(built.pipeline.graph, inputs, RegionInputs::kReference,
                             region_options(built, options), options.session);
  std::stable_sort(check.regions.begin(), check.regions.end(),
                   [](const auto& a, const auto& b) { return excess(a) > excess(b); });
  const auto wrong = static_cast<std::size_t>(
      std::count_if(check.regions.begin(), check.regions.end(),
                    [](const RegionResult& region) { return !region.ok(); }));
  console.print(format_regions(check.regions));
  console.print(
      fmt::format("{} for {}: {} of {} regions are above their bounds on the reference's inputs{}",
                  build.model, built.target.to_string(), wrong, check.regions.size(),
                  check.specialised ? ", compiled for these shapes alone" : ""));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RegionResult& region : check.regions) list.push_back(to_json(region));
  console.result({{"model", build.model},
                  {"target", built.target.to_string()},
                  {"specialised", check.specialised},
                  {"regions", list}});
  return wrong == 0 ? 0 : 1;
}

int bisect(const BuildResult& built, const BuildOptions& build, const AccuracyOptions& options,
           const Console& console) {
  const auto inputs = inputs_of(built, options);
  nlohmann::ordered_json report = {{"model", build.model},
                                   {"target", built.target.to_string()},
                                   {"pass", nullptr},
                                   {"region", nullptr}};
  if (const auto pass = first_wrong_pass(built, build, options, inputs, console); !pass.empty()) {
    console.print(fmt::format("pass '{}' is the first that changes what the graph computes", pass));
    report["pass"] = pass;
    console.result(report);
    return 1;
  }
  const auto check = check_regions(built.pipeline.graph, inputs, RegionInputs::kPropagated,
                                   propagated_options(built, build, options), options.session);
  const RegionResult* first = check.first_failure();
  if (first == nullptr) {
    // The outputs as the whole plan computes them, where regions share memory.
    const auto accuracy = measure_accuracy(built, build, options, console);
    console.print(fmt::format(
        "all {} regions are within their bounds{}", check.regions.size(),
        accuracy.ok() ? ""
                      : ", but the outputs are not: their bounds are tighter (give --tolerance "
                        "for all), or it only happens where intermediate results share memory "
                        "(`sinter inspect --memory`)"));
    report["outputs"] = to_json(accuracy);
    console.result(report);
    return accuracy.ok() ? 0 : 1;
  }
  const auto alone = check_regions(built.pipeline.graph, inputs, RegionInputs::kReference,
                                   region_options(built, options), options.session);
  const auto place = static_cast<std::size_t>(first - check.regions.data());
  console.print(fmt::format("the first region above its bound is number {} of {}:", place + 1,
                            check.regions.size()));
  console.print(format_regions({*first}));
  report["region"] = to_json(*first);
  report["place"] = place;
  // Regions that differ in symbols alone become one in numbers.
  if (alone.regions.size() == check.regions.size()) {
    const RegionResult& own = alone.regions[place];
    console.print(
        fmt::format("its own error, on the reference's inputs, is {:.2e}: {}", own.error,
                    own.ok() ? "it passes on what those before it bring" : "it is wrong"));
    report["own_error"] = own.error;
  }
  console.result(report);
  return 1;
}

int reduce_failure(const BuildResult& built, const BuildOptions& build,
                   const AccuracyOptions& options, const std::string& path,
                   const Console& console) {
  const auto inputs = inputs_of(built, options);
  const ir::Graph& graph = built.pipeline.graph;
  RegionInputs mode = RegionInputs::kReference;
  auto check = check_regions(graph, inputs, mode, region_options(built, options), options.session);
  if (check.ok()) {
    mode = RegionInputs::kPropagated;
    check = check_regions(graph, inputs, mode, propagated_options(built, build, options),
                          options.session);
  }
  const RegionResult* region = check.first_failure();
  if (region == nullptr) {
    console.print(fmt::format("all {} regions are within their bounds: nothing to reduce",
                              check.regions.size()));
    console.result({{"region", nullptr}});
    return 0;
  }
  const Judge judge(built, build, options, mode, region->error, console);
  // Single operators can be taken apart; where the passes would make something else of them, the
  // region stays whole.
  // Numbers for symbols come first: an operand's size may not tell them.
  std::vector<TestCase> starts;
  const ir::Graph numbers = specialised(graph, ir::bind_symbols(graph, inputs));
  const ir::Graph& checked = check.specialised ? numbers : graph;
  for (const ir::Graph* from : {&numbers, &graph}) {
    // Nodes that differ in symbols alone become one, and those behind move.
    if (from->nodes().size() != checked.nodes().size()) continue;
    if (mode == RegionInputs::kPropagated) {
      starts.push_back(up_to(*from, inputs, region->node));
      continue;
    }
    TestCase whole = region_alone(*from, inputs, region->node);
    starts.push_back({flattened(whole.graph), whole.inputs});
    starts.push_back(std::move(whole));
  }
  const auto start = std::find_if(starts.begin(), starts.end(),
                                  [&](const TestCase& test) { return judge.fails(test); });
  if (start == starts.end())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("region {} does not fail by itself, so that it cannot be reduced: its "
                            "error is {:.2e} in the model",
                            region->name, region->error));
  ReduceOptions reduction;
  Progress progress(console, "reducing");
  std::size_t trials = 0;
  reduction.fails = [&](const TestCase& test) {
    progress.update(++trials, reduction.most_trials);
    return judge.fails(test);
  };
  const std::size_t before = flattened(start->graph).nodes().size();
  auto reduced = reduce(*start, reduction);
  const std::size_t after = flattened(reduced.test.graph).nodes().size();
  const auto written =
      write_case(path, std::move(reduced.test), *region, mode, judge, built, options);
  console.print(fmt::format(
      "{}: {} of {} operators left after {} trials{}\n{}", path, after, before, reduced.trials,
      written.inputs.empty() ? "" : ", inputs in " + written.inputs, written.command));
  console.result({{"graph", path},
                  {"inputs", written.inputs},
                  {"region", to_json(*region)},
                  {"operators_before", before},
                  {"operators", after},
                  {"trials", reduced.trials},
                  {"command", written.command}});
  return 1;
}

}  // namespace sinter::tools
