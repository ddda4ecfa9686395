// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/build_options.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <set>

#include "fusion/pipeline.h"
#include "ir/text/shown.h"
#include "ir/text/text.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/each_entry.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {
namespace {

void add_weight_options(Command& verb, BuildTexts& texts) {
  verb.add_option(
          "--weights", texts.weights,
          "model (as they are), or those of products as int8, int4 or fp8 (e4m3), one scale "
          "for each output channel; behind it :group=N (one for each N along k, such as "
          "int4:group=128), :asymmetric (zero points), :embeddings (tables, too), :head "
          "(the last layer in int4, too, which else has 8 bits), :wide=E")
      ->capture_default_str();
  verb.add_option(
      "--keep", texts.keep,
      "--weights and --precision int8 and fp8 leave layers alone whose name has this text; "
      "may be repeated");
  verb.add_option("--calibration", texts.calibration,
                  "FILE.npz of samples of the model's inputs, on which --weights makes up for "
                  "rounding errors, int8 and fp8 find scales and errors, and --cache-precision "
                  "the means of keys; may be repeated");
  verb.add_option(
      "--max-layer-error", texts.max_layer_error,
      "--weights and --precision int8 and fp8 leave layers alone whose output would be off "
      "by more, relative to its size (0: by any)");
}

void add_eight_bit_options(Command& verb, BuildTexts& texts) {
  EightBitOptions& options = texts.options.eight_bit;
  verb.add_option("--activation-scales", texts.activation_scales,
                  "int8 and fp8: static: one scale for an activation, found on --calibration; "
                  "token: one for each row, found in each run; block: fp8, one for 128 of a row, "
                  "found in each run, and one for 128 x 128 weights")
      ->capture_default_str();
  verb.add_switch("--weight-scales", options.per_channel, "channel", "tensor",
                  "int8 and fp8: a scale for each output channel of weights, or one for all");
  verb.add_switch("--weight-rounding", options.compensate, "compensated", "nearest",
                  "int8 and fp8: weights of products make up for rounding errors on --calibration "
                  "(GPTQ), or each is rounded to the nearest number");
  verb.add_option("--smooth", texts.smooth,
                  "int8: SmoothQuant's exponent, 0 to 1, off, or auto: the best of several for "
                  "each layer")
      ->capture_default_str();
  verb.add_option("--include", options.include,
                  "int8 and fp8: layers whose name has this text, though they would stay for what "
                  "they are (the last layer, convolutions of single channels); may be repeated");
  verb.add_option(
          "--attention-precision", texts.attention_precision,
          "What attention multiplies: model (its own type, or --precision's), or fp8: "
          "queries, keys, values and weights of e4m3, scales found on --calibration (sm_90)")
      ->check_one_of({"model", "fp8"})
      ->capture_default_str();
  verb.add_flag("--emulate", options.emulate,
                "int8 and fp8: products, and attention, that the target does not have are computed "
                "in float on "
                "rounded operands, for their accuracy");
}

std::optional<double> parse_smooth(const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "off") return 0;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    throw usage_error("--smooth is '{}': it is auto, off, or an exponent from 0 to 1", text);
  return value;
}

StateOptions parse_states(const std::vector<std::string>& texts) {
  StateOptions states;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (text == "none") {
      states.find = false;
    } else if (equals != std::string::npos) {
      states.pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    } else if (text != "auto") {
      throw usage_error("--state: '{}' is not INPUT=OUTPUT, auto or none", text);
    }
  }
  return states;
}

/// "before:X,after:Y" as a set of such words; "all" is every pass's result.
std::set<std::string> parse_dump(const std::string& text) {
  std::set<std::string> points;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const std::string point = text.substr(start, end - start);
    start = end + 1;
    if (point.empty()) continue;
    const auto colon = point.find(':');
    const auto when = point.substr(0, colon);
    if (point != "all" && (colon == std::string::npos || (when != "before" && when != "after")))
      throw usage_error("--dump-ir: '{}' is not before:PASS, after:PASS or all", point);
    if (point != "all") {
      const auto pass = point.substr(colon + 1);
      bool known = pass == "import";
      for (const auto& entry : fusion::pipeline()) known = known || entry.name == pass;
      if (!known) throw usage_error("--dump-ir: no pass '{}'", pass);
    }
    points.insert(point);
  }
  return points;
}

/// Prints graphs, or writes them into numbered files.
class Dumper {
 public:
  explicit Dumper(const BuildTexts& texts)
      : points_(parse_dump(texts.dump_ir)), dir_(texts.dump_dir) {}

  bool is_idle() const { return points_.empty(); }

  void operator()(std::string_view pass, bool after, const ir::Graph& graph,
                  const std::string& entry) {
    const auto point = fmt::format("{}:{}", after ? "after" : "before", pass);
    if (!points_.contains(point) && !(after && points_.contains("all"))) return;
    if (dir_.empty()) {
      fmt::print(stderr, "# {}{}\n{}\n", entry.empty() ? "" : ir::shown(entry) + " ", point,
                 ir::shown_lines(ir::print(graph)));
      return;
    }
    std::filesystem::create_directories(dir_);
    const auto path =
        fmt::format("{}/{:02}_{}{}_{}.txt", dir_, count_++, entry.empty() ? "" : entry + "_",
                    after ? "after" : "before", pass);
    files::write_file(path, ir::print(graph) + '\n', {.what = "the graph", .is_durable = false});
  }

 private:
  std::set<std::string> points_;
  std::string dir_;
  int count_ = 0;
};

}  // namespace

void add_build_options(Command& verb, BuildTexts& texts, bool with_passes) {
  verb.add_option("--target", texts.options.target,
                  "auto, cpu, cuda, or cuda:ARCH,... (for example cuda:sm_90,sm_80)")
      ->capture_default_str();
  verb.add_option(
          "--precision", texts.precision,
          "model (its own types), fp16, bf16, tf32, or int8 or fp8: products with operands of 8 "
          "bits, and fp16 (CUDA) or the model's types (CPU) beside them")
      ->check_one_of({"model", "fp16", "bf16", "tf32", "int8", "fp8"})
      ->capture_default_str();
  add_weight_options(verb, texts);
  add_eight_bit_options(verb, texts);
  verb.add_option("--minShapes", texts.min_shapes, "Least shapes: NAME:1x1,NAME:1x1");
  verb.add_option("--maxShapes", texts.max_shapes, "Greatest shapes: NAME:8x512");
  verb.add_option("--dim", texts.dims,
                  "Range or value of a symbolic dimension: seq=1..512, batch=8; multiples only: "
                  "h=32..960/32; another dimension or a sum of some: rows=batch, total=past+seq");
  verb.add_option("--bound", texts.bounds,
                  "The most that a size may be which follows from data: NAME=N; NAME is the value "
                  "that holds it, or the node that finds it");
  verb.add_option("--constant", texts.constants,
                  "Make an input a constant of the plan: NAME=FILE.npy or NAME=FILE.pb");
  verb.add_option(
      "--op", texts.options.operators,
      "Operators of your own, by a file that defines them: as an expression, or by CUDA "
      "text, or as a library's function; may be repeated");
  verb.add_option("--state", texts.states,
                  "Input that is an output of the run before, kept and changed in the session: "
                  "INPUT=OUTPUT; caches are found by themselves ('none': they are not)");
  verb.add_option(
          "--cache-precision", texts.cache_precision,
          "What caches of keys and values are stored in: model (its own type, or --precision's), "
          "or fp8 or int8 with a scale for each row of a head: half the bytes of 16-bit floats")
      ->check_one_of({"model", "fp8", "int8"})
      ->capture_default_str();
  verb.add_flag(
      "--packed", texts.options.packed,
      "Encoders: compute only the tokens that the attention mask says exist, sequences end "
      "to end. The mask is an input [batch, sequence] of 0 and 1, given in host memory; "
      "outputs [batch, sequence, ...] are zero where there is no token");
  verb.add_flag(
      "--serve", texts.paging_text, "auto",
      "Decoders: a plan for many requests at once, whose caches lie in blocks; "
      "--serve=block=B,sequences=N,step-tokens=N,positions=N says how large its steps are, "
      "few-tokens=N that those of so many tokens have kernels of their own");
  verb.add_option("--sample", texts.sample,
                  "The plan chooses the next token itself and feeds it back: greedy, or some of "
                  "top_k=K,top_p=P,temperature=T; ids=, position=, logits=NAME name bindings");
  verb.add_option("--entry", texts.entries,
                  "Entry point: steps of its own for some dimensions, over the same weights and "
                  "states: --entry prefill:seq=2..2048 --entry decode:seq=1");
  verb.add_flag("--nms-pad", texts.options.pad_selections,
                "NonMaxSuppression gives max_output_boxes_per_class rows for each class, -1 where "
                "fewer are selected");
  verb.add_flag("--drop-unsupported-outputs", texts.options.drop_unsupported_outputs,
                "Leave out outputs that depend on what is not supported (strings, sequences)");
  verb.add_switch("--programmatic-launch", texts.options.programmatic_launch, "on", "off",
                  "CUDA, sm_90: launch generated kernels before the one in front has ended");
  verb.add_switch("--math", texts.options.precise_math, "precise", "short",
                  "CUDA: 'short' forms of functions where results are rounded to 16 bits anyway or "
                  "arguments are known to be small, or 'precise' ones everywhere");
  verb.add_switch("--fp8-accumulation", texts.options.fast_accumulation, "fast", "float32",
                  "CUDA: sums of products of 8-bit floats go to float32 every 512 of k or sooner "
                  "where k is above 1,024 ('float32'), or stay in the tensor cores' accumulators, "
                  "which have about 14 bits ('fast')");
  verb.add_option("--schedule", texts.options.schedule,
                  "CUDA: one schedule for all generated kernels of its family, as `inspect` prints "
                  "them, to measure it: \"row vector=8 unroll=2 threads=32x4\"");
  verb.add_flag("--strict", texts.options.strict,
                "CUDA: a generated kernel that does not compile is an error; without it its "
                "operators have kernels of their own");
  verb.add_option("-j,--jobs", texts.options.jobs, "Kernels to compile at once; 0 is all cores")
      ->check_range(0, kMaxJobs);
  verb.add_option("--max-compile-memory", texts.max_memory,
                  "Most that constants and tables may take which are computed while compiling: "
                  "512M, 4G (default: half of the memory that this process may use)");
  verb.add_option("--kernel-cache", texts.cache_dir, "Folder of the kernel cache, or 'none'")
      ->default_str(default_kernel_cache());
  if (!with_passes) return;
  add_fuse_option(verb, texts);
  verb.add_option("--disable-pass", texts.options.disabled_passes,
                  "Leave a pass out (see `inspect --passes`)");
  verb.add_option("--stop-after", texts.stop_after, "Stop after this pass and print the graph");
  verb.add_option("--dump-ir", texts.dump_ir, "Print graphs: before:PASS,after:PASS or all");
  verb.add_option("--dump-dir", texts.dump_dir, "Write what --dump-ir asks for into this folder");
  verb.add_flag("--explain-fusion", texts.explain_fusion, "summary",
                "Say how many pairs fused, and of the largest that did not, why; "
                "--explain-fusion=all: of every pair, and of values why they lie as they lie")
      ->check_one_of({"summary", "all"});
}

void add_fuse_option(Command& verb, BuildTexts& texts) {
  verb.add_switch("--fuse", texts.options.fuse, "on", "off",
                  "on, or off: every operator its own kernel");
}

void add_tuning_options(Command& verb, TuneTexts& texts) {
  auto* tune =
      verb.add_option("--tune", texts.options.seconds,
                      "CUDA: choose schedules of generated kernels by timing candidates on this "
                      "machine's GPU for so many seconds, then algorithms of libraries");
  tune->check_positive()->type_name("SECONDS")->excludes("--schedule");
  verb.add_option("--tuning-cache", texts.options.file,
                  "File that keeps what was tuned (default with --tune: the plan's name with "
                  ".tuning behind it); without --tune schedules are taken from it");
  verb.add_option("--tuning-gpu", texts.options.gpu,
                  "Whose schedules to take, if the file has those of several GPUs: its name");
  verb.add_option("--optShapes", texts.shapes, "Shapes to tune for: NAME:8x128")->needs(tune);
}

TuneOptions parse(const TuneTexts& texts) {
  TuneOptions options = texts.options;
  options.shapes = parse_shapes(texts.shapes);
  return options;
}

BuildRequest::BuildRequest(const BuildTexts& texts, const Console& console)
    : constants_(read_tensor_files(texts.constants)), options_(Model(texts.model), texts.options) {
  options_.monitor = monitor_of(console);
  options_.precision = parse_precision(texts.precision);
  options_.eight_bit.smoothing = parse_smooth(texts.smooth);
  options_.weights = parse_weights(texts.weights);
  options_.weights.keep = texts.keep;
  options_.weights.calibration_files = texts.calibration;
  options_.weights.max_layer_error = texts.max_layer_error;
  options_.min_shapes = parse_shapes(texts.min_shapes);
  options_.max_shapes = parse_shapes(texts.max_shapes);
  for (const auto& text : texts.dims) parse_dim(text, options_.dims);
  for (const auto& text : texts.bounds) parse_bound(text, options_.bounds);
  for (const auto& [name, tensor] : constants_)
    options_.constants.push_back({name, view_of(tensor)});
  options_.states = parse_states(texts.states);
  options_.attention_precision = parse_attention_precision(texts.attention_precision);
  options_.eight_bit.activation_scales = parse_activation_scales(texts.activation_scales);
  options_.states.cache_precision = parse_cache_precision(texts.cache_precision);
  if (!texts.paging_text.empty())
    options_.paging = parse_paging(texts.paging_text == "auto" ? "" : texts.paging_text);
  if (!texts.sample.empty()) options_.sample = parse_sample(texts.sample);
  for (const auto& text : texts.entries) options_.entries.push_back(parse_entry(text));
  if (!texts.max_memory.empty())
    options_.max_compile_memory =
        with_context("--max-compile-memory", [&] { return parse_bytes(texts.max_memory); });
  if (!texts.cache_dir.empty())
    options_.kernel_cache = texts.cache_dir == "none" ? "" : texts.cache_dir;
  options_.stop_after = texts.stop_after;
  if (Dumper dumper(texts); !dumper.is_idle())
    options_.observe = [shared = std::make_shared<Dumper>(std::move(dumper))](
                           std::string_view pass, bool after, const ir::Graph& graph,
                           const std::string& entry) { (*shared)(pass, after, graph, entry); };
}

int run_each_entry(const BuildOptions& options, const RunInputs& inputs, const Console& console,
                   const RunOfEntry& run) {
  if (options.entries.empty()) return run(options, console);
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  int worst = 0;
  for (const auto& one : entries_one_by_one(options, inputs, Reporter())) {
    console.print("entry {}: {}", ir::shown(one.name), ir::shown(one.dims));
    Console own = console;
    own.collect = [&](const nlohmann::ordered_json& object) {
      report.push_back({{"entry", one.name}});
      report.back().update(object);
    };
    const int code =
        with_context(fmt::format("entry '{}'", one.name), [&] { return run(one.options, own); });
    worst = std::max(worst, code);
  }
  console.result({{"entries", report}});
  return worst;
}

}  // namespace sinter::tools
