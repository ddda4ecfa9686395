// SPDX-License-Identifier: Apache-2.0
// The compiler as a library: compiles models to plans, and returns facts about both as data.
//
// No function prints or ends the process. All functions are thread-safe. They throw CompileError,
// an Error with its diagnostics; functions that parse a text throw Error(kUsage). Messages name
// options by the fields below: "dims", "weights.keep".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/compile_options.h>
#include <sinter/export.h>
#include <sinter/profile.h>
#include <sinter/sinter.h>

namespace sinter {

// Results.

struct OutputAccuracy {
  std::string output;
  double relative_error = 0, largest_difference = 0, max_error = 0;
  bool ok() const { return relative_error <= max_error; }
};

struct Accuracy {
  std::vector<OutputAccuracy> outputs;
  std::string shapes;     // shapes of the inputs: "x [2, 8]"
  std::string source;     // source of the inputs: "seed 0", the files, "given tensors"
  bool same_bits = true;  // in all runs
  std::vector<Diagnostic> diagnostics;  // of verify; compile returns them in its own result
  SINTER_API bool ok() const;
};

/// Quantization of one layer's weights. Errors are relative, in the 2-norm.
struct LayerResult {
  std::string name;  // names of its ONNX nodes
  std::int64_t n = 0, k = 0;
  int bits = 0;      // 0: not quantized
  std::string type;  // types of both operands, if the activation is quantized, too: "u8 x i8, zero
                     // 12"
  double weight_error = 0;
  double output_error = 0;  // on the calibration samples, else on normal random numbers
  double bytes_before = 0, bytes_after = 0;
  std::string wider;  // why it has more bits than requested; empty: it has not
  std::string kept;   // why it is not quantized; empty: it is
};

struct StateResult {
  std::string input, output;
  bool in_place = false;   // false: copied after each run
  std::string why_copied;  // empty: not copied
};

/// A cache quantized by StateOptions::cache_precision.
struct CacheResult {
  std::string input, output;     // names of the state's bindings
  std::string scales;            // input that is the state of the scales, f32 [.., n, 1]
  std::string model_type, type;  // element types before and after: "f16", "f8e4m3fn"
  std::string shape;             // "[1, 8, capacity, 128]"
  double error = 0;              // relative error of a row of normal random numbers, in the 2-norm
  double bytes_before = 0, bytes_after = 0;  // for a typical shape, scales included
};

struct PassResult {
  std::string name;  // prefixed with its entry point, if there are any: "decode:simplify"
  double milliseconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
};

/// One decision about fusing two nodes.
struct FusionDecision {
  std::string producer, consumer;
  bool fused = false;
  std::string reason;
  double bytes = 0;  // memory traffic that fusion saves for typical shapes; 0: unknown
};

/// The reason for the memory layout of a node's result.
struct LayoutDecision {
  std::string node;
  /// Traffic around the node for values read in another order than stored: with the chosen layout,
  /// and with the next best.
  double bytes = 0, other_bytes = 0;
  std::string reason;
};

/// Result of timing one kernel. Microseconds.
struct TunedKernelResult {
  std::string name;
  std::size_t uses = 0;
  std::string rule, chosen;  // schedules: the rule's and the chosen one
  double rule_us = 0, chosen_us = 0;
  std::size_t tried = 0, candidates = 0;
  std::string problem;  // why it was not timed; empty: it was
};
/// The algorithm chosen for one matmul or convolution of a library.
struct TunedLibraryCall {
  std::string environment;  // GPU, driver and library version
  std::string problem, chosen;
  double microseconds = 0;
};
struct TuningResult {
  std::string gpu, versions;  // empty: nothing was timed
  std::string file;
  std::vector<TunedKernelResult> kernels;
  std::vector<TunedLibraryCall> libraries;
  std::size_t kernels_from_file = 0;
};

struct CompileResult {
  /// False: the measured error exceeds max_error, and there is no plan.
  bool ok() const { return !accuracy || accuracy->ok(); }

  std::vector<std::byte> plan;          // empty if written to a file
  std::string path;                     // of that file
  std::uint64_t plan_bytes = 0;         // its size
  std::string target;                   // "cpu", "cuda:sm_90"
  std::vector<std::string> data_files;  // files beside the model that were read
  std::vector<Diagnostic> diagnostics;

  std::size_t nodes_imported = 0, steps = 0;
  std::size_t kernels = 0, kernels_from_cache = 0;
  double import_ms = 0, passes_ms = 0, codegen_ms = 0;
  std::vector<PassResult> passes;

  std::vector<std::string> precision_notes;  // what was lowered; what was not, and why
  std::vector<LayerResult> layers;           // quantized layers, for WeightOptions
  double bytes_without_rounding = 0;         // the plan's size if these layers had kept floats
  std::vector<StateResult> states;
  std::vector<CacheResult> caches;  // quantized caches, for StateOptions::cache_precision
  std::vector<FusionDecision> decisions;
  std::vector<LayoutDecision> layouts;
  std::optional<Accuracy> accuracy;    // with CompileOptions::verify
  std::optional<TuningResult> tuning;  // with CompileOptions::tuning
};

/// Compiles to bytes for Plan::from_memory. Deterministic: equal model, options, versions and
/// tuning file give equal bytes.
SINTER_API CompileResult compile(const Model& model, const CompileOptions& options = {});
/// The same to a file, written atomically. Needs less memory for large plans.
SINTER_API CompileResult compile_to_file(const Model& model, const std::string& path,
                                         const CompileOptions& options = {});

// Replacing a plan's weights.

struct RefitOptions {
  /// Keeps weights whose tensors are all missing. False: all tensors that weights depend on must be
  /// given.
  bool partial = false;
  Monitor monitor;
};

struct RefitResult {
  std::vector<std::byte> plan;  // empty if written to a file
  std::string path;             // path of the plan; empty: in memory
  std::uint64_t plan_bytes = 0;
  std::size_t changed = 0, kept = 0;  // weights that were recomputed, and others
  double milliseconds = 0;
  std::vector<Diagnostic> diagnostics;
};

/// A plan with new values for its model's constants: the result of compiling the model with these,
/// without running passes or compiling kernels. Names are those of the ONNX model's initializers.
/// Throws kUnsupported, naming them, for values that contradict decisions based on the old ones.
/// Throws kUsage for unknown tensors and for other types or shapes.
SINTER_API Plan with_weights(const Plan& plan, std::span<const NamedTensor> tensors,
                             const RefitOptions& options = {});
/// The same to a file or, if `plan_path` is empty, to bytes.
SINTER_API RefitResult refit(const Plan& plan, std::span<const NamedTensor> tensors,
                             const std::string& plan_path, const RefitOptions& options = {});
/// The same with weights from an ONNX or safetensors file.
SINTER_API RefitResult refit(const Plan& plan, const std::string& weights_path,
                             const std::string& plan_path, const RefitOptions& options = {});
/// Which constants of the model are replaceable, and why others are not, as the JSON of `sinter
/// inspect --refit`.
SINTER_API std::string inspect_refit(const Plan& plan);

// Information about models and plans.

/// The error of a model compiled with `options`, relative to the reference.
SINTER_API Accuracy verify(const Model& model, const CompileOptions& options = {},
                           const VerifyOptions& verify = {});

/// Order statistics of samples, in microseconds.
struct Statistics {
  double min = 0, mean = 0, median = 0, p10 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
  std::size_t count = 0;
};

struct CompareOptions {
  RunInputs inputs;
  SessionOptions session;
  int rounds = 100;     // maximum number
  double seconds = 10;  // maximum time of measuring
  bool hot = false;     // false: flushes the caches before each timed run
};
struct CompareVariant {
  std::string name;  // "unfused-stream", "fused-graph", "model-weights-graph"; on the CPU "fused"
  Statistics compute, wall;
  double speed_up = 1;  // the first variant's median compute time over this one's
  std::size_t launches = 0;
  std::uint64_t bytes_moved = 0, plan_bytes = 0, weight_bytes = 0;
  std::uint64_t memory_bytes = 0;  // all memory of its session
};
struct CompareResult {
  std::string target;
  std::string shapes;                    // shapes of the inputs
  std::vector<CompareVariant> variants;  // the first is the baseline: unfused
  double difference = 0;  // largest relative error of an output, compared with the baseline
  std::optional<double> weights_error;  // error compared with the model's own weights, if they are
                                        // quantized
  std::vector<Diagnostic> diagnostics;
};
/// Compiles a model fused and unfused (with WeightOptions::bits also with its own weights) and
/// measures the variants alternately in this process.
SINTER_API CompareResult compare(const Model& model, const CompileOptions& options = {},
                                 const CompareOptions& compare = {});

/// What limits a step's speed.
enum class Bound {
  kMemory,   // at peak rates, its bytes take longer than its operations
  kCompute,  // at peak rates, its operations take longer than its bytes
  kLaunch,   // both take less time than an empty step: fixed costs dominate
};
/// "memory", "compute", "launch".
SINTER_API std::string_view to_string(Bound bound);

struct StepProfile {
  StepTime time;
  Bound bound = Bound::kLaunch;
  // Lower bounds in microseconds: bytes at the copy rate, operations at their rate; 0: unknown.
  double memory_us = 0, compute_us = 0;
  double launch_us = 0;  // time of an empty step

  SINTER_API std::size_t launches() const;
  /// Bytes per second.
  SINTER_API double bandwidth() const;
  SINTER_API double operations_per_second() const;
  /// Fraction of the limit's rate that the step reaches: the lower bound over its time.
  SINTER_API double share_of_bound() const;
  /// Below a tenth of what bounds it, which is not its launch.
  SINTER_API bool is_slow() const;
  std::string faster_form = {};  // of the operators of a slow step, or an option; empty: none known
};

/// Microseconds, except counts.
struct ProfileReport {
  std::string target, shapes;  // of the plan; of the inputs
  MachineRates rates;
  std::vector<StepProfile> steps;  // longest first
  std::string exact_products;      // what TF32 would save; empty: no float32 product is exact
  double whole_us = 0;             // of the run as it is replayed
  double steps_us = 0;             // sum of the steps
  double memory_us = 0, compute_us = 0, launch_us = 0;  // steps_us by what they are bound by
  double gaps_us = 0;     // whole_us less steps_us, where that is positive: nothing runs. On a GPU
                          // the launch of the graph is in it.
  double overlap_us = 0;  // where it is negative: steps run side by side or start early
  TransferTimes transfers;  // copies of inputs and outputs; they are not part of whole_us
  std::size_t launches = 0;
  std::uint64_t bytes = 0, flops = 0;
  std::vector<Diagnostic> diagnostics;
};

struct ProfileOptions {
  RunInputs inputs;
  SessionOptions session;
  int rounds = 20;  // results are medians over these
  Monitor monitor;
};
/// Profiles a plan: every step compared with the machine's peak rates.
SINTER_API ProfileReport profile(const Plan& plan, const ProfileOptions& options = {});

// The following return JSON text, the objects that `sinter inspect --json` prints.

/// Why two ONNX nodes share a kernel or not, and what that saves; with entry points one result for
/// each, as {"entries": [..]}.
SINTER_API std::string why(const Model& model, std::string_view node_a, std::string_view node_b,
                           const CompileOptions& options = {});

/// Opset, inputs, outputs and operators of a model.
SINTER_API std::string inspect_model(const Model& model, const CompileOptions& options = {});

/// Requested views of a plan; none: a summary.
struct PlanViews {
  bool graph = false;    // graph text after the passes
  bool steps = false;    // steps with launches, traffic and ONNX nodes
  bool kernels = false;  // kernels with variants and schedules
  bool source = false;   // generated CUDA
  bool memory = false;   // the memory layout; needs shapes if there are symbols
  bool tuning = false;   // choices by timing, from the file beside the plan
  Shapes shapes;         // replaces expressions by numbers
};
SINTER_API std::string inspect_plan(const Plan& plan, const PlanViews& views = {});

/// The graph after a pass as text; "import": as imported; empty: after the last pass. Throws
/// Error(kUsage) if there are entry points.
SINTER_API std::string graph_text(const Model& model, const CompileOptions& options = {},
                                  std::string_view behind_pass = "");

}  // namespace sinter
