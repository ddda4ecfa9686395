// SPDX-License-Identifier: Apache-2.0
// The compiler as a library: a model in, a plan out, and what is known of both as data.
//
// Nothing here prints, and no call ends the process. Calls may be made by several threads at once.
// What goes wrong is thrown as CompileError, an Error with its diagnostics; what parses a text
// throws Error(kUsage). Messages call options by the fields below: "dims", "weights.keep".
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
  std::string shapes;                   // of the inputs: "x [2, 8]"
  std::string source;                   // of the inputs: "seed 0", the files, "given tensors"
  bool same_bits = true;                // in all runs
  std::vector<Diagnostic> diagnostics;  // of verify; compile has them in its own result
  SINTER_API bool ok() const;
};

/// What became of the weights of one layer. Errors are relative, in the 2-norm.
struct LayerResult {
  std::string name;  // its ONNX nodes
  std::int64_t n = 0, k = 0;
  int bits = 0;      // 0: kept
  std::string type;  // of both operands, if the activation is rounded, too: "u8 x i8, zero 12"
  double weight_error = 0;
  double output_error = 0;  // on the calibration's samples, else on normal deviates
  double bytes_before = 0, bytes_after = 0;
  std::string wider;  // why it has more bits than asked for; empty: it has not
  std::string kept;   // why it stays as it was; empty: it does not
};

struct StateResult {
  std::string input, output;
  bool in_place = false;   // else it is copied behind each run
  std::string why_copied;  // empty: it is not
};

/// A cache under StateOptions::cache_precision.
struct CacheResult {
  std::string input, output;     // names of the state's bindings
  std::string scales;            // the input that is the state of its scales, f32 [.., n, 1]
  std::string model_type, type;  // of elements before and now: "f16", "f8e4m3fn"
  std::string shape;             // "[1, 8, capacity, 128]"
  double error = 0;              // of a row of normal deviates, relative, in the 2-norm
  double bytes_before = 0, bytes_after = 0;  // for a typical shape, with scales
};

struct PassResult {
  std::string name;  // behind that of its entry point, if there are any: "decode:simplify"
  double milliseconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
};

/// One decision about fusing two nodes.
struct FusionDecision {
  std::string producer, consumer;
  bool fused = false;
  std::string reason;
  double bytes = 0;  // at stake: stored and read less if fused, for typical shapes; 0: not known
};

/// Why the result of a node lies in memory as it lies.
struct LayoutDecision {
  std::string node;
  /// Traffic for what lies otherwise than it is read, around the node: as it is, and as it would be
  /// in the next best order.
  double bytes = 0, other_bytes = 0;
  std::string reason;
};

/// What timing one kernel came to. Microseconds.
struct TunedKernelResult {
  std::string name;
  std::size_t uses = 0;
  std::string rule, chosen;  // schedules
  double rule_us = 0, chosen_us = 0;
  std::size_t tried = 0, candidates = 0;
  std::string problem;  // why it was not timed; empty: it was
};
/// What was chosen for one product or convolution of a library.
struct TunedLibraryCall {
  std::string environment;  // GPU, driver and version of the library
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
  /// False: the measured error is above max_error, and there is no plan.
  bool ok() const { return !accuracy || accuracy->ok(); }

  std::vector<std::byte> plan;   // empty if it was written to a file
  std::string path;              // of that file
  std::uint64_t plan_bytes = 0;  // its size
  std::string target;            // "cpu", "cuda:sm_90"
  std::vector<Diagnostic> diagnostics;

  std::size_t nodes_imported = 0, steps = 0;
  std::size_t kernels = 0, kernels_from_cache = 0;
  double import_ms = 0, passes_ms = 0, codegen_ms = 0;
  std::vector<PassResult> passes;

  std::vector<std::string> precision_notes;  // what was lowered, what was kept and why
  std::vector<LayerResult> layers;           // what WeightOptions asks about
  double bytes_without_rounding = 0;         // of the plan, had these layers kept their floats
  std::vector<StateResult> states;
  std::vector<CacheResult> caches;  // what StateOptions::cache_precision asks about
  std::vector<FusionDecision> decisions;
  std::vector<LayoutDecision> layouts;
  std::optional<Accuracy> accuracy;    // if CompileOptions::verify asks
  std::optional<TuningResult> tuning;  // if CompileOptions::tuning asks
};

/// The plan as bytes, which Plan::from_memory takes. The same model, options, versions and tuning
/// file give the same bytes.
SINTER_API CompileResult compile(const Model& model, const CompileOptions& options = {});
/// The same into a file, which appears whole or not at all. Larger plans take less memory so.
SINTER_API CompileResult compile_to_file(const Model& model, const std::string& path,
                                         const CompileOptions& options = {});

// Other weights for a plan.

struct RefitOptions {
  /// Weights of whose tensors none is given stay as they are. False: all that weights are made of
  /// is given.
  bool partial = false;
  Monitor monitor;
};

struct RefitResult {
  std::vector<std::byte> plan;  // unless it went into a file
  std::string path;             // of the plan; empty: it is in memory
  std::uint64_t plan_bytes = 0;
  std::size_t changed = 0, kept = 0;  // weights of the plan that were made anew, and others
  double milliseconds = 0;
  std::vector<Diagnostic> diagnostics;
};

/// A plan with other values for its model's constants: what compiling the model with these gives,
/// without passes and kernels. Names are those of the ONNX model's initializers. Values that
/// contradict what the compiler has decided by the old ones are refused by name (kUnsupported), as
/// are tensors that the model does not have, and those of other types or shapes (kUsage).
SINTER_API Plan with_weights(const Plan& plan, std::span<const NamedTensor> tensors,
                             const RefitOptions& options = {});
/// The same into a file, or, if `plan_path` is empty, as bytes.
SINTER_API RefitResult refit(const Plan& plan, std::span<const NamedTensor> tensors,
                             const std::string& plan_path, const RefitOptions& options = {});
/// The same of an ONNX or safetensors file.
SINTER_API RefitResult refit(const Plan& plan, const std::string& weights_path,
                             const std::string& plan_path, const RefitOptions& options = {});
/// Which constants of the model can have other values, and which cannot and why, as the JSON that
/// `sinter inspect --refit` prints.
SINTER_API std::string inspect_refit(const Plan& plan);

// What is known about models and plans.

/// The error of a model, compiled with `options`, against the reference.
SINTER_API Accuracy verify(const Model& model, const CompileOptions& options = {},
                           const VerifyOptions& verify = {});

/// Order statistics of samples in microseconds.
struct Statistics {
  double min = 0, mean = 0, median = 0, p10 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
  std::size_t count = 0;
};

struct CompareOptions {
  RunInputs inputs;
  SessionOptions session;
  int rounds = 100;     // at most
  double seconds = 10;  // of measuring, at most
  bool hot = false;     // false: caches are emptied in front of each timed run
};
struct CompareVariant {
  std::string name;  // "unfused-stream", "fused-graph", "model-weights-graph"; on the CPU "fused"
  Statistics compute, wall;
  double speed_up = 1;  // of the median compute time over the first variant's
  std::size_t launches = 0;
  std::uint64_t bytes_moved = 0, plan_bytes = 0, weight_bytes = 0;
  std::uint64_t memory_bytes = 0;  // all that its session holds
};
struct CompareResult {
  std::string target;
  std::string shapes;                    // of the inputs
  std::vector<CompareVariant> variants;  // the first is the baseline: unfused
  double difference = 0;                 // largest relative error of an output against it
  std::optional<double> weights_error;   // against the model's own weights, if others are asked for
  std::vector<Diagnostic> diagnostics;
};
/// Compiles a model fused and unfused, with WeightOptions::bits also with its own weights, and
/// measures all in turns in this process.
SINTER_API CompareResult compare(const Model& model, const CompileOptions& options = {},
                                 const CompareOptions& compare = {});

/// What keeps a step from being faster.
enum class Bound {
  kMemory,   // at full rate its bytes take longer than its operations
  kCompute,  // the other way round
  kLaunch,   // at full rate both take less time than a step that does nothing: fixed costs decide
};
/// "memory", "compute", "launch".
SINTER_API std::string_view to_string(Bound bound);

struct StepProfile {
  StepTime time;
  Bound bound = Bound::kLaunch;
  // Least times in microseconds: bytes at the copy rate, operations at their rate; 0: not known.
  double memory_us = 0, compute_us = 0;
  double launch_us = 0;  // an empty step

  SINTER_API std::size_t launches() const;
  /// Bytes per second.
  SINTER_API double bandwidth() const;
  SINTER_API double operations_per_second() const;
  /// The least time of what it is bound by over its time.
  SINTER_API double share_of_bound() const;
  /// Below a tenth of what bounds it, which is not its launch.
  SINTER_API bool is_slow() const;
  std::string faster_form = {};  // of the operators of a slow step, or an option; empty: none known
};

/// Microseconds, but for counts.
struct ProfileReport {
  std::string target, shapes;  // of the plan, of the inputs
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
  int rounds = 20;  // medians are reported
  Monitor monitor;
};
/// Where the time of a plan goes: every step against what the machine can do.
SINTER_API ProfileReport profile(const Plan& plan, const ProfileOptions& options = {});

// As JSON text, the objects that `sinter inspect --json` prints.

/// Why two ONNX nodes are or are not in one kernel, and what that saves; for each entry point, if
/// there are any, as {"entries": [..]}.
SINTER_API std::string why(const Model& model, std::string_view node_a, std::string_view node_b,
                           const CompileOptions& options = {});

/// Opset, inputs, outputs and operators of a model.
SINTER_API std::string inspect_model(const Model& model, const CompileOptions& options = {});

/// What of a plan is wanted; nothing: a summary.
struct PlanViews {
  bool graph = false;    // after the passes, as text
  bool steps = false;    // with launches, traffic and ONNX nodes
  bool kernels = false;  // with variants and schedules
  bool source = false;   // generated CUDA
  bool memory = false;   // the memory plan; needs shapes if there are symbols
  bool tuning = false;   // what was chosen by timing, from the file beside the plan
  Shapes shapes;         // numbers in place of expressions
};
SINTER_API std::string inspect_plan(const Plan& plan, const PlanViews& views = {});

/// The graph behind a pass as text; "import": as imported; empty: behind the last one. Of one list
/// of steps: throws Error(kUsage) if there are entry points.
SINTER_API std::string graph_text(const Model& model, const CompileOptions& options = {},
                                  std::string_view behind_pass = "");

}  // namespace sinter
