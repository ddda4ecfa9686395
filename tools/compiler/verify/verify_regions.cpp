// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/verify_regions.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/ranges.h>

#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "ir/text/shown.h"
#include "ir/text/text.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/verify/drawn_inputs.h"
#include "tools/compiler/verify/exact_caches.h"
#include "tools/compiler/verify/reduce.h"
#include "tools/compiler/verify/region_check.h"

namespace sinter::tools {
namespace {

std::vector<ir::Tensor> inputs_of(const BuildResult& built, const VerifyOptions& options,
                                  const Reporter& reporter) {
  const ir::Graph& model = built.model.graph;
  const std::vector<BindingInfo> bindings = describe_inputs(model);
  try {
    auto inputs = make_inputs(bindings, long_inputs(model, options.inputs));
    evaluate_reference(model, inputs, true, reporter);
    return inputs;
  } catch (const Error& error) {
    if (!are_too_long(error)) throw;
  }
  return make_inputs(bindings, options.inputs);
}

RegionOptions region_options(const BuildResult& built, const VerifyOptions& options) {
  RegionOptions result;
  result.compile = built.compile;
  result.bound = options.max_error;
  return result;
}

/// Errors propagate, so a region's bound is at least that of a model's output.
RegionOptions propagated_options(const BuildResult& built, const BuildOptions& build,
                                 const VerifyOptions& options) {
  RegionOptions result = region_options(built, options);
  result.least_bound = default_bound(DType::kFloat32, build, built.target.traits());
  return result;
}

double excess(const RegionResult& region) {
  return region.error == 0  ? 0
         : region.bound > 0 ? region.error / region.bound
                            : std::numeric_limits<double>::infinity();
}

/// The largest error of a graph's outputs, in units of their bounds.
double worst_output(const BuildOptions& build, const VerifyOptions& options,
                    const ir::TargetTraits& target, const std::vector<ir::Tensor>& found,
                    const std::vector<ir::Tensor>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double bound =
        options.max_error > 0 ? options.max_error : default_bound(found[i].dtype(), build, target);
    worst = std::max(worst, relative_error(found[i], expected[i]) / bound);
  }
  return worst;
}

/// The first pass after which the graph's reference evaluation differs from the model's; empty if
/// there is none.
std::string first_wrong_pass(const BuildResult& built, const BuildOptions& build,
                             const VerifyOptions& options, const std::vector<ir::Tensor>& inputs,
                             const Reporter& reporter) {
  // From some pass on 8-bit caches have scales: compares dequantized values.
  const auto& caches = built.pipeline.context.caches;
  std::vector<std::string> names;
  for (const ir::ValueId input : built.pipeline.graph.inputs())
    names.push_back(built.pipeline.graph.value(input).name);
  const auto exact = with_exact_caches(inputs, names, caches, true);
  const auto outputs_of = [&](const ir::Graph& graph) {
    if (graph.inputs().size() != inputs.size())
      return evaluate_reference(graph, exact, true, reporter);
    return with_exact_caches(evaluate_reference(graph, inputs, true, reporter),
                             graph.output_names(), caches, false);
  };
  const auto expected = outputs_of(built.model.graph);
  const auto differs = [&](const ir::Graph& graph) {
    return worst_output(build, options, built.target.traits(), outputs_of(graph), expected) > 1;
  };
  if (is_fused(built.model.graph) || !differs(built.pipeline.graph)) return "";
  const auto& times = built.pipeline.times;  // of the executed passes
  std::size_t right = 0, wrong = times.size();
  while (right + 1 < wrong) {
    const std::size_t middle = (right + wrong) / 2;
    BuildOptions until = build;
    until.stop_after = times[middle - 1].name;
    until.observe = nullptr;
    Reporter quiet = reporter.quiet();
    const auto run = run_passes(until, built.model, built.target, quiet);
    (differs(run.graph) ? wrong : right) = middle;
  }
  return times[wrong - 1].name;
}

/// One region as a test case, with the reference's values as inputs.
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

/// All nodes up to one region, unfused.
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

/// Judges test cases as `verify` will judge the written file.
class Judge {
 public:
  Judge(const BuildResult& built, const BuildOptions& build, const VerifyOptions& options,
        RegionInputs mode, const RegionResult& failure, const Reporter& reporter)
      : target_(built.target),
        build_(build),
        session_(options.session),
        mode_(mode),
        overflow_(std::isinf(failure.error)),
        failed_(!failure.failure.empty()),
        reporter_(reporter.quiet()),
        regions_(mode == RegionInputs::kReference ? region_options(built, options)
                                                  : propagated_options(built, build, options)) {
    // The graph is lowered already.
    if (build_.precision != Precision::kTf32) build_.precision = Precision::kModel;
    if (mode == RegionInputs::kPropagated)
      regions_.least_bound = default_bound(DType::kFloat32, build_, target_.traits());
    build_.stop_after.clear();
    build_.observe = nullptr;
  }

  /// A case that does not compile is another failure, as is one with an infinite error if the
  /// original's is finite.
  bool fails(const TestCase& test) const {
    reporter_.check();
    try {
      frontend::ImportedModel model;
      model.graph = test.graph;
      Reporter quiet = reporter_.quiet();
      const auto passes = run_passes(build_, model, target_, quiet);
      const auto check = check_regions(passes.graph, test.inputs, mode_, regions_, session_);
      return std::ranges::any_of(check.regions, [&](const auto& region) {
        return !region.ok() && std::isinf(region.error) == overflow_ &&
               region.failure.empty() == !failed_;
      });
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      return false;
    }
  }

 private:
  Target target_;
  BuildOptions build_;
  SessionOptions session_;
  RegionInputs mode_;
  bool overflow_, failed_;
  Reporter reporter_;
  RegionOptions regions_;
};

/// The written file, and the command that shows its failure.
struct Written {
  std::string text, inputs;  // paths; no inputs: seeded random ones suffice
  std::string command;
};

Written write_case(const std::string& path, TestCase test, const RegionResult& region,
                   RegionInputs mode, const Judge& judge, const BuildResult& built,
                   const VerifyOptions& options) {
  Written written{path, "", ""};
  TestCase seeded = test;
  seeded.inputs = make_inputs(describe_inputs(test.graph), {});
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
      options.max_error > 0 ? fmt::format(" --tolerance={:g}", options.max_error) : "");
  ir::PrintOptions print;
  print.inline_limit = std::numeric_limits<std::size_t>::max();
  std::string text =
      fmt::format("# region {}, relative error {:.2e}, bound {:.1e}\n# of: {}\n# {}\n",
                  ir::shown(region.name), region.error, region.bound,
                  ir::shown(fmt::format("{}", fmt::join(region.origins, ", "))), written.command);
  files::write_file(path, text + ir::print(test.graph, print));
  return written;
}

}  // namespace

nlohmann::ordered_json to_json(const RegionResult& region) {
  nlohmann::ordered_json json = {
      {"region", region.name},     {"kind", region.kind}, {"relative_error", region.error},
      {"tolerance", region.bound}, {"ok", region.ok()},   {"origins", region.origins}};
  if (!region.failure.empty()) json["failure"] = region.failure;
  return json;
}

RegionsReport verify_regions(const BuildResult& built, const VerifyOptions& options,
                             const Reporter& reporter) {
  const auto inputs = inputs_of(built, options, reporter);
  auto check = check_regions(built.pipeline.graph, inputs, RegionInputs::kReference,
                             region_options(built, options), options.session);
  std::ranges::stable_sort(check.regions,
                           [](const auto& a, const auto& b) { return excess(a) > excess(b); });
  RegionsReport report;
  report.wrong = static_cast<std::size_t>(std::ranges::count_if(
      check.regions, [](const RegionResult& region) { return !region.ok(); }));
  report.regions = std::move(check.regions);
  report.specialised = check.specialised;
  return report;
}

BisectReport bisect(const BuildResult& built, const BuildOptions& build,
                    const VerifyOptions& options, const Reporter& reporter) {
  const auto inputs = inputs_of(built, options, reporter);
  BisectReport report;
  report.loss = find_rounding_loss(built, build, inputs, reporter);
  report.overflow = find_overflow(built, build, inputs);
  report.pass = first_wrong_pass(built, build, options, inputs, reporter);
  if (!report.pass.empty()) return report;
  const auto check = check_regions(built.pipeline.graph, inputs, RegionInputs::kPropagated,
                                   propagated_options(built, build, options), options.session);
  report.regions = check.regions.size();
  const RegionResult* first = check.first_failure();
  if (first == nullptr) {
    // Outputs of the whole plan, where regions share memory.
    report.outputs = measure_accuracy(built, build, options, reporter);
    return report;
  }
  const auto alone = check_regions(built.pipeline.graph, inputs, RegionInputs::kReference,
                                   region_options(built, options), options.session);
  report.region = *first;
  report.place = static_cast<std::size_t>(first - check.regions.data());
  // Regions that differ only in symbols become equal, and are merged, with numbers.
  if (alone.regions.size() == check.regions.size()) {
    report.own_error = alone.regions[report.place].error;
    report.own_ok = alone.regions[report.place].ok();
  }
  return report;
}

ReduceReport reduce_failure(const BuildResult& built, const BuildOptions& build,
                            const VerifyOptions& options, const std::string& path,
                            const Reporter& reporter) {
  const auto inputs = inputs_of(built, options, reporter);
  const ir::Graph& graph = built.pipeline.graph;
  RegionInputs mode = RegionInputs::kReference;
  auto check = check_regions(graph, inputs, mode, region_options(built, options), options.session);
  if (check.ok()) {
    mode = RegionInputs::kPropagated;
    check = check_regions(graph, inputs, mode, propagated_options(built, build, options),
                          options.session);
  }
  const RegionResult* region = check.first_failure();
  ReduceReport report;
  report.regions = check.regions.size();
  if (region == nullptr) return report;
  report.region = *region;
  const Judge judge(built, build, options, mode, *region, reporter);
  // Unfused graphs reduce further; if the passes would fuse them differently, the region stays
  // whole. Specialized graphs come first, since an operand's size may not determine the symbols.
  std::vector<TestCase> starts;
  const ir::Graph numbers = specialised(graph, ir::bind_symbols(graph, inputs));
  const ir::Graph& checked = check.specialised ? numbers : graph;
  for (const ir::Graph* from : {&numbers, &graph}) {
    // Nodes that differ only in symbols are merged, which shifts later indices.
    if (from->nodes().size() != checked.nodes().size()) continue;
    if (mode == RegionInputs::kPropagated) {
      starts.push_back(up_to(*from, inputs, region->node));
      continue;
    }
    TestCase whole = region_alone(*from, inputs, region->node);
    starts.push_back({flattened(whole.graph), whole.inputs});
    starts.push_back(std::move(whole));
  }
  const auto start =
      std::ranges::find_if(starts, [&](const TestCase& test) { return judge.fails(test); });
  if (start == starts.end())
    throw unsupported_error(
        "region {} does not fail by itself, so that it cannot be reduced: its "
        "error is {:.2e} in the model",
        region->name, region->error);
  ReduceOptions reduction;
  std::size_t trials = 0;
  reduction.fails = [&](const TestCase& test) {
    reporter.progress("reducing", ++trials, reduction.most_trials);
    return judge.fails(test);
  };
  report.operators_before = flattened(start->graph).nodes().size();
  auto reduced = reduce(*start, reduction);
  report.operators = flattened(reduced.test.graph).nodes().size();
  report.trials = reduced.trials;
  const auto written =
      write_case(path, std::move(reduced.test), *region, mode, judge, built, options);
  report.path = path;
  report.inputs = written.inputs;
  report.command = written.command;
  return report;
}

}  // namespace sinter::tools
