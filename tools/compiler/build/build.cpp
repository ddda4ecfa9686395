// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/build.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <set>

#include <fmt/ranges.h>

#include "codegen/targets/peer_links.h"
#include "fusion/narrow_dims.h"
#include "fusion/paging/paged_states.h"
#include "fusion/pipeline.h"
#include "ir/ranks/rank_parts.h"
#include "ir/scaled_rows.h"
#include "runtime/format_error.h"
#include "runtime/plan/serving.h"
#include "tools/compiler/build/calibration.h"
#include "tools/compiler/build/exact_products.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/options/eight_bit.h"
#include "tools/compiler/options/entries.h"
#include "tools/compiler/options/memory.h"
#include "tools/compiler/options/option_values.h"
#include "tools/compiler/options/paging.h"
#include "tools/compiler/options/weights.h"
#include "tools/compiler/refit/recipes.h"
#include "tools/compiler/run/binding_texts.h"

namespace sinter::tools {
namespace {

/// The names that passes write must equal those that the verifier and the engine read.
constexpr bool have_same_names() {
  namespace written = fusion::paged_names;
  namespace read = plan::serving_names;
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {written::kIds, read::kIds},
      {written::kPositions, read::kPositions},
      {written::kSlotMapping, read::kSlotMapping},
      {written::kSequenceStarts, read::kSequenceStarts},
      {written::kBlockTables, read::kBlockTables},
      {written::kSampleRows, read::kSampleRows},
      {written::kSamplingReals, read::kSamplingReals},
      {written::kSamplingIntegers, read::kSamplingIntegers},
      {written::kTokenSets, read::kTokenSets},
      {written::kBiasedTokens, read::kBiasedTokens},
      {written::kTokenBiases, read::kTokenBiases},
      {written::kLogprobsWanted, read::kLogprobsWanted},
      {written::kSampledTokens, read::kSampledTokens},
      {written::kLikeliestTokens, read::kLikeliestTokens},
      {written::kTokenLogprobs, read::kTokenLogprobs},
      {written::kCrossLimits, read::kCrossLimits},
      {written::kTextLengths, read::kTextLengths},
      {written::kStateOffsets, read::kStateOffsets},
      {written::kStateSources, read::kStateSources},
      {written::kStateSlots, read::kStateSlots},
      {written::kStateStores, read::kStateStores},
      {written::kGivenVectors, read::kGivenVectors},
      {written::kGivenRows, read::kGivenRows},
      {written::kRotaryPositions, read::kRotaryPositions},
      {written::kCrossTables, read::kCrossTables},
      {written::kExpertOffsets, read::kExpertOffsets}};
  return std::ranges::all_of(kNames, [](const auto& pair) { return pair.first == pair.second; });
}
static_assert(have_same_names());

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// --tensor-parallel.
fusion::ShardingOptions sharding_to_fusion(const BuildOptions& options, const Target& target) {
  constexpr int kMostDevices = 64;  // of estimates
  fusion::ShardingOptions sharding;
  if (options.tensor_parallel == 1) return sharding;
  if (options.tensor_parallel < 1 || options.tensor_parallel > kMostDevices)
    throw usage_error("--tensor-parallel takes 1 to {} devices, not {}", kMostDevices,
                      options.tensor_parallel);
  if (options.sharding) return *options.sharding;
  sharding.ranks = options.tensor_parallel;
  if (target.architectures.empty()) {
    const codegen::CpuRank& rank = codegen::cpu_rank();
    sharding.memory_bandwidth = rank.memory_bandwidth;
    sharding.product_rate = rank.product_rate;
    sharding.links = rank.links;
    return sharding;
  }
  const codegen::DeviceModel& device = target.kind->device(target.architectures.front());
  sharding.memory_bandwidth = device.memory_bandwidth;
  sharding.product_rate = device.tensor_flops;
  const bool is_of_hosts = sharding.ranks > codegen::kHostDevices;
  if (is_of_hosts && sharding.ranks % codegen::kHostDevices != 0)
    throw usage_error("--tensor-parallel {}: beyond one host, whole hosts of {} devices",
                      sharding.ranks, codegen::kHostDevices);
  sharding.links = is_of_hosts ? codegen::links_of_hosts(sharding.ranks) : codegen::peer_links();
  return sharding;
}

fusion::Context context_of(const BuildOptions& options, const Target& target) {
  fusion::Context context;
  context.target = target.traits();
  context.fuse = options.fuse;
  context.precision = precision_to_fusion(options.precision, context.target);
  const bool has_attention = options.attention_precision != AttentionPrecision::kModel;
  context.weights = to_fusion(
      options.weights, has_eight_bit(options.precision) || has_attention,
      options.states.cache_precision != CachePrecision::kModel,
      options.precision == Precision::kFloat16 || options.precision == Precision::kBFloat16);
  context.eight_bit = eight_bit_to_fusion(options, context.target);
  context.max_memory = memory_limit(options);
  context.states = {options.states.find, options.states.pairs, std::nullopt};
  if (options.states.cache_precision != CachePrecision::kModel)
    context.states.cache_type = options.states.cache_precision == CachePrecision::kInt8
                                    ? DType::kInt8
                                    : DType::kFloat8E4M3FN;
  context.packed = options.packed;
  context.sharding = sharding_to_fusion(options, target);
  if (options.serve.paging) context.paging = to_fusion(*options.serve.paging);
  return context;
}

/// Reports passes over one or several graphs: progress, and the caller's observer.
class Observer {
 public:
  Observer(const BuildOptions& options, const Reporter& reporter, std::size_t graphs)
      : options_(options), reporter_(reporter), total_(graphs * fusion::pipeline().size()) {}

  void imported(const ir::Graph& graph) const {
    if (options_.observe) options_.observe("import", true, graph, "");
  }
  /// `entry`: name of the graph's entry point; empty: none.
  std::function<void(std::string_view, bool, const ir::Graph&)> of(const std::string& entry) {
    return [this, entry](std::string_view pass, bool is_after, const ir::Graph& graph) {
      if (!is_after) reporter_.progress("passes", done_++, total_);
      if (options_.observe) options_.observe(pass, is_after, graph, entry);
    };
  }

 private:
  const BuildOptions& options_;
  const Reporter& reporter_;
  std::size_t done_ = 0, total_;
};

/// Appends one entry point's decisions and notes to those of all.
void add_decisions(const fusion::Context& one, fusion::Context& all) {
  all.decisions.insert(all.decisions.end(), one.decisions.begin(), one.decisions.end());
  all.layouts.insert(all.layouts.end(), one.layouts.begin(), one.layouts.end());
  for (const auto& note : one.precision_notes)
    if (auto& notes = all.precision_notes; std::ranges::find(notes, note) == notes.end())
      notes.push_back(note);
}

/// Adds inputs and outputs for the scales of `caches`, as in the entry points' graphs.
ir::Graph with_scales(const ir::Graph& graph, const std::vector<fusion::QuantizedCache>& caches) {
  if (caches.empty()) return graph;
  ir::GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ir::ValueId> inputs, scales;
  for (const ir::ValueId input : graph.inputs())
    inputs.push_back(builder.input(graph.value(input).name, graph.type(input)));
  for (const fusion::QuantizedCache& cache : caches) {
    ir::Shape shape = cache.shape;
    shape.back() = 1;
    scales.push_back(builder.input(cache.scales, {ir::kRowScaleType, std::move(shape)}));
  }
  const std::vector<ir::ValueId> outputs = ir::inline_graph(builder, graph, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(graph.output_names()[i], outputs[i]);
  for (std::size_t i = 0; i < caches.size(); ++i)
    builder.output(caches[i].output_scales, scales[i]);
  for (const ir::State& state : graph.states()) builder.state(state);
  return builder.finish();
}

/// The entry points that the options list, or that paging implies.
std::vector<EntryLimits> wanted_entries(const BuildOptions& options) {
  return options.serve.paging ? entries_of(*options.serve.paging) : limits_of(options.entries);
}

/// States and integers are found once for all entry points; other passes run on each.
std::vector<codegen::EntryGraph> run_entry_passes(const BuildOptions& options, const Target& target,
                                                  Reporter& reporter, ir::Graph& model,
                                                  PipelineRun& run) {
  const bool is_calibrated =
      !options.weights.calibration.empty() || !options.weights.calibration_files.empty();
  if (is_calibrated && options.weights.bits == 0 && !has_eight_bit(options.precision) &&
      !options.entries.empty())
    throw usage_error(
        "--calibration for --cache-precision alone does not go with --entry: leave one of them "
        "out");
  const auto entries = wanted_entries(options);
  Observer observer(options, reporter, entries.size() + 1);
  observer.imported(model);
  fusion::PipelineOptions first, then;
  first.observe = observer.of("");
  first.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  then.disabled = first.disabled;
  run.context = context_of(options, target);
  const std::string_view last_of_model = fusion::last_pass_of_model(run.context);
  bool is_of_model = true;
  for (const auto& pass : fusion::pipeline()) {
    (is_of_model ? then : first).disabled.insert(std::string(pass.name));
    if (pass.name == last_of_model) is_of_model = false;
  }
  run.context.weights.calibration = make_calibration(options.weights, model, reporter);
  auto result = fusion::run_pipeline(model, run.context, first);
  run.context.weights.calibration.reset();  // frees the samples
  model = std::move(result.graph);
  run.times = std::move(result.times);
  // Smallest first: entry points share the weights, and only small ones depend on the weights'
  // layout.
  const auto size_of_entry = [&](std::size_t e) {
    double size = 1;
    for (const auto& [symbol, range] : entries[e].limits) size *= static_cast<double>(range.max);
    return size;
  };
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return size_of_entry(a) < size_of_entry(b); });
  std::set<std::uint64_t> laid_out;
  std::vector<fusion::QuantizedCache> caches;  // quantized caches, the same for all entry points,
                                               // unless quantized before
  std::vector<codegen::EntryGraph> graphs(entries.size());
  for (const std::size_t e : order) {
    const std::string& name = entries[e].name;
    auto limits = entries[e].limits;
    // Only some decoders have sizes of states.
    if (options.serve.paging)
      std::erase_if(limits, [&](const auto& each) { return !model.ranges().contains(each.first); });
    fusion::Context context = context_of(options, target);
    context.laid_out = &laid_out;
    then.observe = observer.of(name);
    auto of_entry = fusion::run_pipeline(fusion::narrow_dims(model, limits), context, then);
    for (auto& time : of_entry.times) {
      time.name = name + ":" + time.name;
      run.times.push_back(std::move(time));
    }
    add_decisions(context, run.context);
    for (const auto& note : context.notes) reporter.note("passes", note);
    caches = context.caches;
    graphs[e] = {name, std::move(of_entry.graph), limits};
  }
  run.graph = graphs.front().graph;
  model = with_scales(model, caches);
  if (!caches.empty()) run.context.caches = std::move(caches);
  return graphs;
}

/// One entry point for each body of a model with a flag input.
std::vector<codegen::EntryGraph> run_body_passes(const BuildOptions& options,
                                                 const frontend::ImportedModel& model,
                                                 const Target& target, Reporter& reporter,
                                                 PipelineRun& run) {
  const frontend::ImportedModel::Flag& flag = *model.flag;
  BuildOptions of_body = options;
  // A state would have to exist in both bodies.
  of_body.disabled_passes.push_back("find_states");
  std::vector<codegen::EntryGraph> entries;
  for (std::size_t i = 0; i < flag.graphs.size(); ++i) {
    frontend::ImportedModel body;
    body.graph = flag.graphs[i];
    PipelineRun one = run_passes(of_body, body, target, reporter, {});
    const std::string name = fmt::format("{}={}", flag.input, i == 0 ? "false" : "true");
    for (auto& time : one.times) {
      time.name = name + ":" + time.name;
      run.times.push_back(std::move(time));
    }
    if (i == 0)
      run.context = std::move(one.context);
    else
      add_decisions(one.context, run.context);
    std::map<std::string, ir::Range> limits(body.graph.ranges().begin(), body.graph.ranges().end());
    const auto value = static_cast<std::int64_t>(i);
    limits[flag.symbol] = ir::Range{value, value, nullptr};
    entries.push_back({name, std::move(one.graph), std::move(limits)});
  }
  run.graph = entries.front().graph;
  return entries;
}

codegen::CompileOptions codegen_options(const BuildOptions& options, const Target& target,
                                        const frontend::ImportedModel& model) {
  codegen::CompileOptions compile;
  compile.target = target.kind;
  compile.architectures = target.architectures;
  compile.tf32 = options.precision == Precision::kTf32;
  compile.programmatic_launch = options.programmatic_launch;
  compile.precise_math = options.precise_math;
  compile.tasks = options.tasks;
  compile.fast_accumulation = options.fast_accumulation;
  if (options.int8_activations && target.traits().generates_kernels)
    throw usage_error(
        "--cpu-activations is about --target cpu: leave it out, or see --precision int8");
  compile.int8_activations = options.int8_activations;
  compile.schedule = options.schedule;
  compile.code = options.code;
  if (options.jobs < 0 || options.jobs > kMaxJobs)
    throw usage_error("jobs is {}: expected 1 to {}, or 0 for as many as there are cores",
                      options.jobs, kMaxJobs);
  compile.threads = options.jobs;
  compile.cache_dir = options.kernel_cache.value_or(default_kernel_cache());
  compile.model_name = name_of(options.model);
  compile.model_hash = model.hash;
  compile.nodes_imported = model.node_count;
  compile.ranks = options.tensor_parallel;
  compile.options =
      recorded_options(options, {.generates_kernels = target.traits().generates_kernels,
                                 .approximates_functions = target.traits().approximates_functions});
  return compile;
}

/// Splits the nodes of `refused` into single operators, in the graph or in the entry points'
/// graphs. False if none of them contains several.
bool separate_refused(const std::vector<codegen::RefusedKernel>& refused, ir::Graph& graph,
                      std::vector<codegen::EntryGraph>& entries) {
  bool any = false;
  for (std::size_t e = 0; e < std::max<std::size_t>(1, entries.size()); ++e) {
    std::vector<std::size_t> nodes;
    for (const auto& kernel : refused)
      for (const auto& place : kernel.nodes)
        if (place.entry == e) nodes.push_back(place.node);
    ir::Graph& all = entries.empty() ? graph : entries[e].graph;
    if (auto separated = fusion::separate(all, nodes)) {
      all = std::move(*separated);
      any = true;
    }
  }
  return any;
}

}  // namespace

void require_one_entry(const CompileOptions& options, std::string_view what) {
  if (!options.entries.empty())
    throw usage_error(
        "{} is of one list of steps: give --dim with the dimensions of the "
        "entry point that you mean instead of --entry",
        what);
}

PipelineRun run_passes(
    const BuildOptions& options, const frontend::ImportedModel& model, const Target& target,
    Reporter& reporter,
    const std::function<void(std::string_view pass, const ir::Graph& graph)>& after) {
  PipelineRun run;
  run.context = context_of(options, target);
  Observer observer(options, reporter, 1);
  observer.imported(model.graph);
  fusion::PipelineOptions pipeline;
  pipeline.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  pipeline.stop_after = options.stop_after;
  pipeline.observe = [observe = observer.of(""), &after](std::string_view pass, bool is_after,
                                                         const ir::Graph& graph) {
    observe(pass, is_after, graph);
    if (is_after && after) after(pass, graph);
  };
  if (is_fused(model.graph)) {
    // Only Graph text can be fused already, and passes expect single operators.
    reporter.note("passes", "the graph is fused: it is compiled as it stands, without passes");
    run.graph = model.graph;
    return run;
  }
  run.context.weights.calibration = make_calibration(options.weights, model.graph, reporter);
  auto result = fusion::run_pipeline(model.graph, run.context, pipeline);
  run.context.weights.calibration.reset();  // frees the samples
  run.graph = std::move(result.graph);
  run.times = std::move(result.times);
  for (const auto& note : run.context.precision_notes) reporter.note("precision", note);
  for (const auto& note : run.context.notes) reporter.note("passes", note);
  return run;
}

BuildResult build_plan(const BuildOptions& options, Reporter& reporter) {
  const auto target = resolve_target(options.target);
  const auto start = std::chrono::steady_clock::now();
  auto model = import_model(options.model, options, reporter, Bodies::kAll);
  const double import_ms = milliseconds_since(start);
  auto result = build_plan(options, std::move(model), target, reporter);
  result.times.import_ms = import_ms;
  return result;
}

BuildResult build_plan(const BuildOptions& options, frontend::ImportedModel model,
                       const Target& target, Reporter& reporter) {
  BuildResult result;
  result.model = std::move(model);
  result.target = target;
  for (const auto& warning : result.model.warnings) reporter.warn("import", warning);
  const bool has_ranks = options.tensor_parallel != 1;
  if (options.tensor_parallel > codegen::kHostDevices)
    throw usage_error(
        "--tensor-parallel {}: plans are of up to {} devices; --explain-sharding "
        "estimates more",
        options.tensor_parallel, codegen::kHostDevices);
  if (has_ranks && result.model.flag)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("--tensor-parallel {}: input '{}' chooses between two graphs: say "
                            "which is meant, --dim {}=0 or --dim {}=1",
                            options.tensor_parallel, result.model.flag->input,
                            result.model.flag->input, result.model.flag->input));
  auto start = std::chrono::steady_clock::now();
  std::vector<codegen::EntryGraph> entries;
  ir::Graph bindings;
  if (options.serve.paging && (!options.entries.empty() || options.packed))
    throw usage_error("--serve takes decoders of one list of steps, without --entry and --packed");
  if (options.packed && (result.model.flag || !options.entries.empty()))
    throw usage_error(
        "--packed takes models of one list of steps, without --entry and without an input that "
        "chooses between graphs");
  if (result.model.flag) {
    bindings = result.model.graph;
    entries = run_body_passes(options, result.model, target, reporter, result.pipeline);
  } else if (wanted_entries(options).empty()) {
    result.pipeline = run_passes(options, result.model, target, reporter);
  } else {
    bindings = result.model.graph;
    entries = run_entry_passes(options, target, reporter, bindings, result.pipeline);
    for (const auto& note : result.pipeline.context.precision_notes)
      reporter.note("precision", note);
  }
  result.times.passes_ms = milliseconds_since(start);

  codegen::CompileOptions compile = codegen_options(options, target, result.model);
  if (const auto& paging = result.pipeline.context.paging) {
    // A pass determines the maximum length of a sequence.
    PagingOptions found = *options.serve.paging;
    if (const auto& table = result.pipeline.context.position_table; !table.empty()) {
      const std::string limit =
          fmt::format("a sequence has at most {} positions, as many as {} has rows for",
                      paging->max_positions, table);
      if (found.max_positions > 0)
        reporter.warn("serve", fmt::format("--serve=positions={}: {}", found.max_positions, limit));
      else
        reporter.note("serve", limit);
    }
    found.max_positions = paging->max_positions;
    for (auto& [key, value] : compile.options)
      if (key == kPagingKey) value = to_text(found);
  }
  if (const BindingTexts texts{result.model.input_texts, result.model.output_texts};
      !texts.inputs.empty() || !texts.outputs.empty())
    compile.options.emplace_back(kTextsKey, to_text(texts));
  compile.precision_notes = result.pipeline.context.precision_notes;
  for (const fusion::ShardedState& state : result.pipeline.context.sharded.states)
    compile.split_states.push_back({state.input, state.axis, state.parts});
  compile.checkpoint = [&reporter] { reporter.check(); };
  compile.edit_source = options.edit_source;
  if (const auto& flag = result.model.flag) compile.values_of.emplace(flag->symbol, flag->input);
  start = std::chrono::steady_clock::now();
  for (bool done = false; !done;) try {
      if (options.tune)
        options.tune(entries.empty() ? result.pipeline.graph : bindings, entries, target, compile);
      compile.progress = [&reporter](std::size_t done, std::size_t total) {
        reporter.progress("compiling kernels", done, total);
      };
      result.plan = entries.empty() ? codegen::compile(result.pipeline.graph, compile)
                                    : codegen::compile_entries(bindings, entries, compile);
      done = true;
    } catch (const codegen::KernelsRefused& refused) {
      if (options.strict || !separate_refused(refused.kernels, result.pipeline.graph, entries))
        throw;
      for (const auto& kernel : refused.kernels) {
        const std::string nodes = fmt::format("{}", fmt::join(kernel.origins, ", "));
        compile.options.emplace_back("refused-kernel", nodes);
        reporter.warn("refused-kernel",
                      fmt::format("kernel '{}' does not compile for {}: its operators ({}) have "
                                  "kernels of their own instead. This is a defect of Sinter; "
                                  "please report it with {} (--strict makes it an error)",
                                  kernel.name, kernel.architecture, nodes, kernel.reproducer));
      }
    }
  if (options.fuse && options.precision == Precision::kModel && !target.architectures.empty())
    if (const auto exact = describe(
            exact_products(result.plan.parts.meta, target.kind->device(target.architectures[0])),
            "by the cost model"))
      reporter.note("precision", *exact);
  if (options.serve.paging) plan::serving_of(result.plan.parts.meta);
  if (const auto& reads = result.pipeline.context.sharded.reads)
    ir::check_ranks_agree(*reads, options.tensor_parallel);
  // What ranks' weights are made of is not written: such plans are compiled again.
  if (result.model.reads && !has_ranks)
    result.plan.parts.meta.refit =
        to_text(recipes_of(result.plan, *result.model.reads, result.model.structure));
  result.compile = std::move(compile);
  result.compile.progress = nullptr;
  result.compile.checkpoint = nullptr;
  result.times.codegen_ms = milliseconds_since(start);
  return result;
}

}  // namespace sinter::tools

namespace sinter {

std::string default_kernel_cache() {
  if (const char* dir = std::getenv("SINTER_CACHE_DIR")) return dir;
  // Ignores empty and relative paths: a relative one would differ between working directories.
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value != nullptr && value[0] == '/' ? value : "");
  };
  if (const std::string cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache + "/sinter";
  if (const std::string home = folder("HOME"); !home.empty()) return home + "/.cache/sinter";
  return "";
}

}  // namespace sinter
