#include "tools/compiler/build.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/product_ways.h"
#include "fusion/narrow_dims.h"
#include "ir/text/text.h"
#include "tools/compiler/device/devices.h"
#include "tools/compiler/options/calibration.h"
#include "tools/compiler/options/entry_option.h"
#include "tools/compiler/options/graph_file.h"
#include "tools/compiler/options/inputs.h"
#include "tools/compiler/options/sample_option.h"

namespace sinter::tools {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const auto end = std::min(text.find(separator, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

fusion::Precision parse_precision(const std::string& text) {
  if (text == "fp16") return fusion::Precision::kFloat16;
  if (text == "bf16") return fusion::Precision::kBFloat16;
  if (text == "tf32") return fusion::Precision::kTf32;
  return fusion::Precision::kModel;
}

fusion::StateOptions parse_states(const std::vector<std::string>& texts) {
  fusion::StateOptions states;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (text == "none") {
      states.find = false;
    } else if (equals != std::string::npos) {
      states.pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    } else if (text != "auto") {
      throw Error(ErrorCode::kUsage,
                  fmt::format("--state: '{}' is not INPUT=OUTPUT, auto or none", text));
    }
  }
  return states;
}

/// "before:X,after:Y" as a set of such words; "all" is every pass's result.
std::set<std::string> parse_dump(const std::string& text) {
  std::set<std::string> points;
  for (const auto& point : split(text, ',')) {
    const auto colon = point.find(':');
    const auto when = point.substr(0, colon);
    if (point != "all" && (colon == std::string::npos || (when != "before" && when != "after")))
      throw Error(ErrorCode::kUsage,
                  fmt::format("--dump-ir: '{}' is not before:PASS, after:PASS or all", point));
    if (point != "all") {
      const auto pass = point.substr(colon + 1);
      bool known = pass == "import";
      for (const auto& entry : fusion::pipeline()) known = known || entry.name == pass;
      if (!known) throw Error(ErrorCode::kUsage, fmt::format("--dump-ir: no pass '{}'", pass));
    }
    points.insert(point);
  }
  return points;
}

class Dumper {
 public:
  Dumper(const BuildOptions& options)
      : points_(parse_dump(options.dump_ir)), dir_(options.dump_dir) {}

  /// `entry`: whose graph it is, if it is one entry point's.
  void operator()(std::string_view pass, bool after, const ir::Graph& graph,
                  const std::string& entry = "") {
    const auto point = fmt::format("{}:{}", after ? "after" : "before", pass);
    if (!points_.contains(point) && !(after && points_.contains("all"))) return;
    if (dir_.empty()) {
      fmt::print(stderr, "# {}{}\n{}\n", entry.empty() ? "" : entry + " ", point, ir::print(graph));
      return;
    }
    std::filesystem::create_directories(dir_);
    const auto path =
        fmt::format("{}/{:02}_{}{}_{}.txt", dir_, count_++, entry.empty() ? "" : entry + "_",
                    after ? "after" : "before", pass);
    std::ofstream file(path);
    if (!(file << ir::print(graph) << '\n'))
      throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be written", path));
  }

 private:
  std::set<std::string> points_;
  std::string dir_;
  int count_ = 0;
};

}  // namespace

void add_build_options(Command& verb, BuildOptions& options, bool with_passes) {
  verb.add_option("--target", options.target,
                  "auto, cpu, cuda, or cuda:ARCH,... (for example cuda:sm_90,sm_80)")
      ->capture_default_str();
  verb.add_option("--precision", options.precision, "model (its own types), fp16, bf16 or tf32")
      ->check_one_of({"model", "fp16", "bf16", "tf32"})
      ->capture_default_str();
  add_weight_options(verb, options.weights);
  verb.add_option("--minShapes", options.shapes.min_shapes, "Least shapes: NAME:1x1,NAME:1x1");
  verb.add_option("--maxShapes", options.shapes.max_shapes, "Greatest shapes: NAME:8x512");
  verb.add_option("--dim", options.shapes.dims,
                  "Range or value of a symbolic dimension: seq=1..512, batch=8, or multiples only: "
                  "h=32..960/32");
  verb.add_option("--constant", options.constants,
                  "Make an input a constant of the plan: NAME=FILE.npy or NAME=FILE.pb");
  verb.add_option("--state", options.states,
                  "Input that is an output of the run before, kept and changed in the session: "
                  "INPUT=OUTPUT; caches are found by themselves ('none': they are not)");
  verb.add_option("--sample", options.sample,
                  "The plan chooses the next token itself and feeds it back: greedy, or some of "
                  "top_k=K,top_p=P,temperature=T; ids=, position=, logits=NAME name bindings");
  verb.add_option("--entry", options.entries,
                  "Entry point: steps of its own for some dimensions, over the same weights and "
                  "states: --entry prefill:seq=2..2048 --entry decode:seq=1");
  verb.add_flag("--nms-pad", options.nms_pad,
                "NonMaxSuppression gives max_output_boxes_per_class rows for each class, -1 where "
                "fewer are selected");
  verb.add_switch("--early-launch", options.early_launch, "on", "off",
                  "CUDA, sm_90: launch generated kernels before the one in front has ended");
  verb.add_switch("--math", options.precise_math, "precise", "short",
                  "CUDA: 'short' forms of functions where results are rounded to 16 bits anyway or "
                  "arguments "
                  "are known to be small, or 'precise' ones everywhere");
  verb.add_option(
      "--schedule", options.schedule,
      "CUDA: one schedule for all generated kernels of its family, as `inspect` prints them, "
      "to measure it: \"row vector=8 unroll=2 threads=32x4\"");
  verb.add_option("-j,--jobs", options.jobs, "Kernels to compile at once; 0 is all cores");
  verb.add_option("--kernel-cache", options.cache_dir, "Folder of the kernel cache, or 'none'")
      ->default_str(default_cache_dir());
  if (!with_passes) return;
  add_fuse_option(verb, options);
  verb.add_option("--disable-pass", options.disabled_passes,
                  "Leave a pass out (see `inspect --passes`)");
  verb.add_option("--stop-after", options.stop_after, "Stop after this pass and print the graph");
  verb.add_option("--dump-ir", options.dump_ir, "Print graphs: before:PASS,after:PASS or all");
  verb.add_option("--dump-dir", options.dump_dir, "Write what --dump-ir asks for into this folder");
  verb.add_flag("--explain-fusion", options.explain_fusion,
                "Say of every pair why it fused or not");
}

void add_fuse_option(Command& verb, BuildOptions& options) {
  verb.add_switch("--fuse", options.fuse, "on", "off", "on, or off: every operator its own kernel");
}

std::string Target::to_string() const {
  if (!cuda) return "cpu";
  std::string text = "cuda:";
  for (const auto& architecture : architectures)
    text += (text.back() == ':' ? "" : ",") + architecture;
  return text;
}

Target resolve_target(const std::string& text) {
  if (text == "cpu") return {};
  const bool wants_cuda = text == "cuda" || text.starts_with("cuda:");
  if (!wants_cuda && text != "auto")
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is no target: write auto, cpu, cuda or cuda:sm_90", text));
  Target target;
  if (text.starts_with("cuda:")) {
    target.cuda = true;
    target.architectures = split(text.substr(5), ',');
    for (const auto& name : target.architectures) {
      const bool digits =
          name.size() > 4 && name.find_first_not_of("0123456789", 3) == std::string::npos;
      if (!name.starts_with("sm_") || !digits || std::stoi(name.substr(3, 4)) < 80)
        throw Error(
            ErrorCode::kUsage,
            fmt::format("'{}' is no architecture that Sinter compiles for: sm_80 and later", name));
    }
    if (target.architectures.empty())
      throw Error(ErrorCode::kUsage,
                  "--target=cuda: names no architecture, for example cuda:sm_90");
    return target;
  }
  const auto architecture = first_gpu_architecture();
  if (architecture) return {true, {*architecture}};
  if (text == "cuda")
    throw Error(ErrorCode::kDevice,
                "no GPU was found to compile for: name the architecture, for example "
                "--target=cuda:sm_90, or see `sinter doctor`");
  return {};
}

std::string default_cache_dir() {
  if (const char* dir = std::getenv("SINTER_CACHE_DIR")) return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME")) return std::string(dir) + "/sinter";
  if (const char* home = std::getenv("HOME")) return std::string(home) + "/.cache/sinter";
  return "";
}

namespace {

frontend::ImportedModel import_model(const BuildOptions& options) {
  if (is_graph_file(options.model)) {
    const auto& shapes = options.shapes;
    if (!shapes.min_shapes.empty() || !shapes.max_shapes.empty() || !options.constants.empty())
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}' is Graph text, which states its own shapes and constants: "
                              "--minShapes, --maxShapes and --constant are for ONNX files",
                              options.model));
    auto model = read_graph_file(options.model);
    if (shapes.dims.empty()) return model;
    const auto wanted = import_options(shapes, model.graph);
    if (!wanted.same.empty() || !wanted.multiples.empty())
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}' is Graph text, whose dimensions can be narrowed, but neither "
                              "made equal nor multiples: write --dim NAME=MIN..MAX or NAME=VALUE",
                              options.model));
    model.graph = fusion::narrow_dims(model.graph, {wanted.ranges.begin(), wanted.ranges.end()});
    return model;
  }
  frontend::ImportOptions values;
  values.pad_selections = options.nms_pad;
  for (auto& [name, tensor] : read_tensor_files(options.constants))
    values.input_values.insert_or_assign(name, std::move(tensor));
  const auto& shapes = options.shapes;
  if (shapes.min_shapes.empty() && shapes.max_shapes.empty() && shapes.dims.empty())
    return frontend::import_model(options.model, values);
  // Some models can be imported with the right shapes only, so the inputs are read first.
  auto import = import_options(shapes, frontend::import_inputs(options.model, values));
  import.input_values = std::move(values.input_values);
  import.pad_selections = options.nms_pad;
  return frontend::import_model(options.model, import);
}

}  // namespace

frontend::ImportedModel import_with_shapes(const BuildOptions& options) {
  auto model = import_model(options);
  if (!options.sample.empty())
    model.graph = fusion::append_sampler(model.graph, parse_sampler(options.sample));
  const auto entries = parse_entries(options.entries);
  if (!entries.empty())
    model.graph = with_context(
        "--entry", [&] { return fusion::narrow_dims(model.graph, hull_of(entries, model.graph)); });
  return model;
}

void require_one_entry(const BuildOptions& options, const char* what) {
  if (!options.entries.empty())
    throw Error(ErrorCode::kUsage,
                fmt::format("{} is of one list of steps: give --dim with the dimensions of the "
                            "entry point that you mean instead of --entry",
                            what));
}

namespace {

constexpr std::array<std::string_view, 2> kPassesOfTheModel = {"find_states", "quantise_weights"};

fusion::Context context_of(const BuildOptions& options, const Target& target) {
  fusion::Context context;
  context.target = target.cuda ? fusion::cuda_traits() : fusion::cpu_traits();
  context.fuse = options.fuse;
  context.precision = parse_precision(options.precision);
  context.weights = parse_weights(options.weights);
  context.states = parse_states(options.states);
  return context;
}

/// States and weights are found once for all entry points; the other passes go over each of them.
std::vector<codegen::EntryGraph> run_entry_passes(const BuildOptions& options, const Target& target,
                                                  const Console& console, ir::Graph& model,
                                                  PipelineRun& run) {
  Dumper dump(options);
  dump("import", true, model);
  fusion::PipelineOptions first, then;
  first.observe = [&](std::string_view pass, bool after, const ir::Graph& graph) {
    dump(pass, after, graph);
  };
  first.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  then.disabled = first.disabled;
  for (const auto& pass : fusion::pipeline()) {
    const bool is_of_model = std::find(kPassesOfTheModel.begin(), kPassesOfTheModel.end(),
                                       pass.name) != kPassesOfTheModel.end();
    (is_of_model ? then : first).disabled.insert(std::string(pass.name));
  }
  run.context = context_of(options, target);
  run.context.weights.calibration = make_calibration(options.weights.calibration, model, console);
  auto result = fusion::run_pipeline(model, run.context, first);
  run.context.weights.calibration.reset();  // its samples
  model = std::move(result.graph);
  run.times = std::move(result.times);
  const auto entries = parse_entries(options.entries);
  // Small ones first: how weights lie matters to them alone, and all read the same.
  const auto size_of_entry = [&](std::size_t e) {
    double size = 1;
    for (const auto& [symbol, range] : entries[e].limits) size *= static_cast<double>(range.max);
    return size;
  };
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of_entry(a) < size_of_entry(b);
  });
  std::set<std::uint64_t> laid_out;
  std::vector<codegen::EntryGraph> graphs(entries.size());
  for (const std::size_t e : order) {
    const std::string& name = entries[e].name;
    const auto& limits = entries[e].limits;
    fusion::Context context = context_of(options, target);
    context.laid_out = &laid_out;
    then.observe = [&dump, &entry = name](std::string_view pass, bool after,
                                          const ir::Graph& graph) {
      dump(pass, after, graph, entry);
    };
    auto of_entry = fusion::run_pipeline(fusion::narrow_dims(model, limits), context, then);
    for (auto& time : of_entry.times) {
      time.name = name + ":" + time.name;
      run.times.push_back(std::move(time));
    }
    run.context.decisions.insert(run.context.decisions.end(), context.decisions.begin(),
                                 context.decisions.end());
    for (auto& note : context.precision_notes)
      if (auto& notes = run.context.precision_notes;
          std::find(notes.begin(), notes.end(), note) == notes.end())
        notes.push_back(std::move(note));
    graphs[e] = {name, std::move(of_entry.graph), limits};
  }
  run.graph = graphs.front().graph;
  return graphs;
}

}  // namespace

PipelineRun run_passes(
    const BuildOptions& options, const frontend::ImportedModel& model, const Target& target,
    const Console& console,
    const std::function<void(std::string_view pass, const ir::Graph& graph)>& after) {
  PipelineRun run;
  run.context = context_of(options, target);
  Dumper dump(options);
  dump("import", true, model.graph);
  fusion::PipelineOptions pipeline;
  pipeline.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  pipeline.stop_after = options.stop_after;
  pipeline.observe = [&](std::string_view pass, bool is_after, const ir::Graph& graph) {
    dump(pass, is_after, graph);
    if (is_after && after) after(pass, graph);
  };
  if (is_fused(model.graph)) {
    // Only a text can be that. The passes expect single operators.
    console.note("the graph is fused: it is compiled as it stands, without passes");
    run.graph = model.graph;
    return run;
  }
  run.context.weights.calibration =
      make_calibration(options.weights.calibration, model.graph, console);
  auto result = fusion::run_pipeline(model.graph, run.context, pipeline);
  run.context.weights.calibration.reset();  // its samples
  run.graph = std::move(result.graph);
  run.times = std::move(result.times);
  for (const auto& note : run.context.precision_notes) console.note("precision: " + note);
  return run;
}

BuildResult build_plan(const BuildOptions& options, const Console& console) {
  const auto target = resolve_target(options.target);
  const auto start = std::chrono::steady_clock::now();
  auto model = import_with_shapes(options);
  const double import_ms = milliseconds_since(start);
  auto result = build_plan(options, std::move(model), target, console);
  result.times.import_ms = import_ms;
  return result;
}

BuildResult build_plan(const BuildOptions& options, frontend::ImportedModel model,
                       const Target& target, const Console& console) {
  BuildResult result;
  result.model = std::move(model);
  result.target = target;
  for (const auto& warning : result.model.warnings) console.note("warning: " + warning);
  auto start = std::chrono::steady_clock::now();
  std::vector<codegen::EntryGraph> entries;
  ir::Graph bindings;
  if (options.entries.empty()) {
    result.pipeline = run_passes(options, result.model, target, console);
  } else {
    bindings = result.model.graph;
    entries = run_entry_passes(options, target, console, bindings, result.pipeline);
    for (const auto& note : result.pipeline.context.precision_notes)
      console.note("precision: " + note);
  }
  result.times.passes_ms = milliseconds_since(start);

  codegen::CompileOptions compile;
  compile.cuda = target.cuda;
  compile.architectures = target.architectures;
  compile.tf32 = options.precision == "tf32";
  compile.early_launch = options.early_launch;
  compile.precise_math = options.precise_math;
  (codegen::is_schedule(options.schedule) ? compile.product : compile.schedule) = options.schedule;
  compile.code = options.code;
  compile.threads = options.jobs;
  compile.cache_dir = options.cache_dir == "none" ? ""
                      : options.cache_dir.empty() ? default_cache_dir()
                                                  : options.cache_dir;
  compile.model_name = std::filesystem::path(options.model).filename().string();
  compile.model_hash = result.model.hash;
  compile.nodes_imported = result.model.node_count;
  compile.options = {{"fuse", options.fuse ? "on" : "off"}, {"precision", options.precision}};
  if (options.weights.weights != "model")
    compile.options.emplace_back("weights", options.weights.weights);
  for (const auto& file : options.weights.calibration)
    compile.options.emplace_back("calibration", file);
  for (const auto& pass : options.disabled_passes)
    compile.options.emplace_back("disable-pass", pass);
  if (target.cuda && !options.early_launch) compile.options.emplace_back("early-launch", "off");
  if (target.cuda) compile.options.emplace_back("math", options.precise_math ? "precise" : "short");
  if (!options.schedule.empty()) compile.options.emplace_back("schedule", options.schedule);
  if (options.nms_pad) compile.options.emplace_back("nms-pad", "on");
  if (!options.sample.empty())
    compile.options.emplace_back(kSampleKey, to_text(parse_sampler(options.sample)));
  for (const auto& entry : options.entries) compile.options.emplace_back("entry", entry);
  compile.precision_notes = result.pipeline.context.precision_notes;
  Progress progress(console, "compiling kernels");
  compile.progress = [&progress](std::size_t done, std::size_t total) {
    progress.update(done, total);
  };
  start = std::chrono::steady_clock::now();
  if (options.tune)
    options.tune(entries.empty() ? result.pipeline.graph : bindings, entries, target, compile);
  result.plan = entries.empty() ? codegen::compile(result.pipeline.graph, compile)
                                : codegen::compile_entries(bindings, entries, compile);
  result.compile = std::move(compile);
  result.compile.progress = nullptr;
  result.times.codegen_ms = milliseconds_since(start);
  return result;
}

Plan load_built(const codegen::CompiledPlan& plan) {
  return Plan::from_memory(plan::serialize_plan(plan.parts));
}

std::vector<BindingInfo> describe_inputs(const ir::Graph& graph) {
  std::vector<BindingInfo> inputs;
  for (const auto id : graph.inputs()) {
    const auto& value = graph.value(id);
    BindingInfo info{value.name, value.type.dtype, {}};
    for (const auto& dim : value.type.shape) {
      const auto low = ir::lower_bound(dim, graph.ranges());
      const auto high = ir::upper_bound(dim, graph.ranges());
      info.shape.push_back({dim.to_string(), low.value_or(0), high.value_or(INT64_MAX)});
    }
    inputs.push_back(std::move(info));
  }
  return inputs;
}

}  // namespace sinter::tools
