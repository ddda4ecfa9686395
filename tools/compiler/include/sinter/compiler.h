// The compiler as a library: a model in, a plan out, and what is known of both as data.
//
// Nothing here prints, and no call ends the process. Calls may be made by several threads at once.
// What goes wrong is thrown as CompileError, an Error with its diagnostics; what parses a text
// throws Error(kUsage). Messages call options by the fields below: "dims", "weights.keep".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/export.h>
#include <sinter/profile.h>
#include <sinter/sinter.h>

namespace sinter {

// What the compiler says.

enum class Severity {
  kNote,     // what was done and might be asked about
  kWarning,  // the model was taken for something that it may not be, or an option did nothing
  kError     // no plan
};

/// "note", "warning", "error".
SINTER_API std::string_view to_string(Severity severity);

struct Diagnostic {
  Severity severity = Severity::kNote;
  /// For programs: an ErrorCode's name ("unsupported", "invalid_model"), or of notes and warnings
  /// "import", "passes", "precision", "weights", "tuning", "accuracy".
  std::string code;
  std::string message;              // whole by itself: it names the node, too
  std::string node;                 // of ONNX; empty: about no single one
  std::string op;                   // its operator and version: "Loop-16", "com.example::Norm-1"
  std::vector<std::string> shapes;  // types of its inputs: "f32[batch, 8]"; "?": not known
  std::string hint;                 // what to do instead; empty: nothing is known
};

/// What every call of the compiler throws: the Error that ended it, with what was said before and,
/// last, why: one diagnostic of severity kError for each node that was refused, else a single one.
class SINTER_API CompileError : public Error {
 public:
  CompileError(const Error& error, std::vector<Diagnostic> diagnostics)
      : Error(error), diagnostics_(std::move(diagnostics)) {}
  ~CompileError() override;

  const std::vector<Diagnostic>& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// What a call tells while it works, and what stops it. Callbacks come from one thread at a time,
/// which need not be the caller's. What they throw ends the call and leaves it unchanged.
struct Monitor {
  /// Each diagnostic as it arises, once. Errors and results have all of them, too, but for results
  /// that are texts: why, inspect_model, graph_text.
  std::function<void(const Diagnostic& diagnostic)> on_diagnostic;
  /// `done` of `total` of a stage, which grows: "import", "passes", "rounding layers" (of weights),
  /// "reading samples", "smoothing", "choosing scales", "measuring errors" (of operands of 8 bits),
  /// "tuning kernels", "compiling kernels", "reference", "measuring". A stage may come again.
  std::function<void(std::string_view stage, std::size_t done, std::size_t total)> on_progress;
  /// Asked to stop, a call throws CompileError(kCancelled) between two nodes, passes, kernels or
  /// timings, and leaves no plan. What was finished by then stays in caches: compiled kernels, and
  /// schedules if all that were to be timed had been.
  std::stop_token stop;
};

// What is compiled.

/// A model: an ONNX file or Graph text, or the bytes of one.
struct Model {
  std::string path;                  // empty: `bytes` are the model
  std::span<const std::byte> bytes;  // must live as long as the call
  /// Where external data of `bytes` lie; empty: a model that has any is refused.
  std::string folder;
  std::string name = "model";  // what a plan from `bytes` says its model is called

  Model() = default;
  Model(std::string file) : path(std::move(file)) {}
  Model(const char* file) : path(file) {}
  explicit Model(std::span<const std::byte> model, std::string external_data = "")
      : bytes(model), folder(std::move(external_data)) {}
};

/// Shapes by name of an input.
using Shapes = std::map<std::string, std::vector<std::int64_t>>;
/// "ids:1x64,mask:1x64", as trtexec writes them; "x:" is a scalar. Throws Error(kUsage).
SINTER_API Shapes parse_shapes(std::string_view text);

/// What is known of a symbolic dimension.
struct DimRange {
  std::int64_t min = 0, max = 0;  // inclusive; equal: a constant
  std::int64_t multiple_of = 1;
  /// A dimension that this one always equals, or an expression of others ("past + seq"); the fields
  /// above do not count then.
  std::string same_as = {};
};
/// By name of the dimension.
using DimRanges = std::map<std::string, DimRange>;
/// "seq=1..512", "batch=8", "h=32..960/32" (multiples of 32), "rows=batch", "total=past+seq":
/// adds to `ranges`.
/// Throws Error(kUsage).
SINTER_API void parse_dim(std::string_view text, DimRanges& ranges);

/// The most that sizes may be which follow from data, by the name of a value of the model that
/// holds one, or of the node that finds it.
using Bounds = std::map<std::string, std::int64_t>;
/// "frames=1000": adds to `bounds`. Throws Error(kUsage).
SINTER_API void parse_bound(std::string_view text, Bounds& bounds);

/// A tensor in host memory, by name. Its data must live as long as the call.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

/// What models are run on to measure something: what is given, and random numbers for the rest.
struct RunInputs {
  std::vector<NamedTensor> tensors;
  std::vector<std::string> files;  // FILE.npz, NAME=FILE.npy or NAME=FILE.pb
  Shapes shapes;                   // of random inputs; dimensions that nothing fixes are least
  /// Uniform in [low, high], by input; without it floats are normal, integers 0 or 1, and masks of
  /// which a plan counts the tokens full.
  std::map<std::string, std::pair<double, double>> ranges;
  std::uint64_t seed = 0;
};

// Options.

/// kInt8 and kFloat8: products and convolutions with operands of 8 bits (EightBitOptions), beside
/// float16 on a GPU and the model's own types on the CPU.
enum class Precision { kModel, kFloat16, kBFloat16, kTf32, kInt8, kFloat8 };
/// "model", "fp16", "bf16", "tf32", "int8", "fp8".
SINTER_API std::string_view to_string(Precision precision);
SINTER_API Precision parse_precision(std::string_view text);

/// Weights of products as integers of few bits.
struct WeightOptions {
  int bits = 0;                 // 8 or 4; 0: weights stay as the model has them
  std::int64_t group = 0;       // elements along k that share a scale; 0: one for each channel
  bool symmetric = true;        // no zero points
  bool floats = false;          // with 8 bits: floats (e4m3) instead of integers; symmetric ones
  bool embeddings = false;      // tables that rows are gathered from, too (8 bits)
  bool last_as_others = false;  // with 4 bits: the last layer has them, too, else 8
  /// With 4 bits and a calibration: layers whose output would be off by more than this, a mean
  /// layer's measure, have 8; 0: none.
  double wide_error = 0.048;
  std::vector<std::string> keep;  // layers whose name has one of these texts stay
  double max_layer_error = 0;     // as do those whose output would be off by more; 0: none
  /// Samples of the model's inputs, on which rounding errors are made up for, and ranges and errors
  /// found under Precision::kInt8 and kFloat8: of an input's shape,
  /// or with samples along a dimension in front. Files: FILE.npz.
  std::vector<NamedTensor> calibration;
  std::vector<std::string> calibration_files;
};
/// What elements of an activation share a scale: all of them (one scale, found on the samples),
/// those of a row, or 128 of a row (of floats, whose weights have a scale for 128 x 128 then); the
/// last two are found in each run.
enum class ActivationScales { kStatic, kToken, kBlock };
/// "static", "token", "block".
SINTER_API std::string_view to_string(ActivationScales scales);
SINTER_API ActivationScales parse_activation_scales(std::string_view text);

/// How products get operands of 8 bits, under Precision::kInt8 and kFloat8. Samples, layers that
/// stay and the most that one may be off by are those of WeightOptions.
struct EightBitOptions {
  bool per_channel = true;  // weights have a scale for each output channel, else one for all
  ActivationScales activation_scales = ActivationScales::kStatic;
  /// SmoothQuant's exponent, 0 to 1, for integers; 0: none; without a value the best of several for
  /// each layer.
  std::optional<double> smoothing;
  bool compensate = true;    // with samples, weights of products make up for rounding errors
  double max_error = 0.015;  // of the outputs on the samples: layers stay until it holds
  /// Layers whose name has one of these texts are rounded though they would stay for what they are:
  /// the last layer, convolutions of single channels.
  std::vector<std::string> include;
  /// Products that the target does not have are computed in float on rounded operands: for their
  /// accuracy, without a device that has them.
  bool emulate = false;
};

/// "model", "int8" or "int4", with ":group=N", ":asymmetric", ":embeddings", ":head", ":wide=E" as
/// `sinter compile --weights` takes them; calibration, kept layers and errors stay empty.
SINTER_API WeightOptions parse_weights(std::string_view text);

/// What caches of keys and values are stored in: the model's type (or that of Precision), or 8 bits
/// with a scale for each row of a head.
enum class CachePrecision { kModel, kFloat8, kInt8 };
/// "model", "fp8", "int8".
SINTER_API std::string_view to_string(CachePrecision precision);
SINTER_API CachePrecision parse_cache_precision(std::string_view text);

/// Inputs that are outputs of the run before, which sessions keep.
struct StateOptions {
  bool find = true;                                        // caches are found by themselves
  std::vector<std::pair<std::string, std::string>> pairs;  // input and output
  /// Of 8 bits: every cache among the states; kUnsupported, naming it, if one cannot be. Such a
  /// state "key" has its scales in another state, "key.scales".
  CachePrecision cache_precision = CachePrecision::kModel;
};

/// How a plan chooses the next token itself. Where several names stand, the first that is there.
struct SampleOptions {
  double temperature = 0;  // 0: greedy
  std::int64_t top_k = 0;  // of so many of the most likely tokens; 0: of all
  double top_p = 1;        // of the fewest most likely ones that have this probability together
  bool keep_logits = false;
  std::string ids = "input_ids", logits = "logits";
  std::vector<std::string> position = {"position", "position_ids", "cache_position"};

  bool is_greedy() const { return temperature == 0; }
};
/// "greedy", or some of "top_k=40,top_p=0.9,temperature=0.7"; "ids=", "position=", "logits=NAME".
SINTER_API SampleOptions parse_sample(std::string_view text);

/// A decoder of many sequences at once: tokens of all of them end to end, caches in blocks that
/// block tables name. `sinter serve` and Engine run such plans (tools/compiler/options/README.md).
struct PagingOptions {
  std::int64_t block_size = 16;         // positions of a block of the caches, a power of two
  std::int64_t max_sequences = 256;     // of a step
  std::int64_t max_step_tokens = 2048;  // of all sequences of a step
  std::int64_t max_positions = 0;       // of a sequence; 0: as many as the model takes
};
/// "", or some of "block=16,sequences=256,step-tokens=2048,positions=8192".
SINTER_API PagingOptions parse_paging(std::string_view text);

/// Steps of their own for some dimensions, over the weights and states that all share.
struct EntryOptions {
  std::string name;
  DimRanges limits;  // `min` and `max` alone count
};
/// "prefill:seq=2..2048", "decode:seq=1,batch=1".
SINTER_API EntryOptions parse_entry(std::string_view text);

/// Schedules of generated kernels, chosen by timing them on this machine's GPU or taken from a file
/// of such choices.
struct TuneOptions {
  double seconds = 0;  // to time kernels for; 0: none are timed
  /// What is kept and taken. Empty: beside a plan's file (its name and ".tuning") if kernels are
  /// timed, else none; plans that stay in memory need a name here to be timed.
  std::string file;
  std::string gpu;  // whose choices to take from the file; empty: this machine's, or the only one's
  Shapes shapes;    // to time for; else each symbol is the most that it may be, 512 at most
  int device = 0;
  /// Where the plan's host operators are. Without them algorithms of libraries, which are timed in
  /// a run of the whole plan, are left to its sessions.
  std::vector<OperatorLibrary> operator_libraries;
};

/// A run beside the reference evaluation of the model as it was imported, in float64.
struct VerifyOptions {
  RunInputs inputs;
  SessionOptions session;
  /// Most ||a - b|| / ||b|| of an output; 0: by precision and weights (2e-5 for float32).
  double max_error = 0;
  int runs = 1;  // all of which must give the same bits
  /// Folder for outputs.npz, reference.npz and rounded.npz (the reference with each operator's
  /// result rounded to its type); empty: none.
  std::string save_folder;
};

struct CompileOptions {
  std::string target = "auto";  // auto, cpu, cuda, or cuda:sm_90,sm_80
  Precision precision = Precision::kModel;
  WeightOptions weights;
  EightBitOptions eight_bit;

  Shapes min_shapes, max_shapes;
  DimRanges dims;
  std::vector<NamedTensor> constants;  // inputs that become constants of the plan
  /// Definition files of operators (frontend/custom/README.md), which go before those that the
  /// model itself defines.
  std::vector<std::string> operators;
  Bounds bounds;
  bool pad_selections = false;  // NonMaxSuppression gives all rows that it may, -1 where fewer are
  /// Outputs that depend on what is not supported (strings, sequences) are left out, with a
  /// warning.
  bool drop_unsupported_outputs = false;
  StateOptions states;
  /// Encoders are computed over the tokens that the attention mask, an input of 0 and 1, says
  /// exist.
  bool packed = false;
  std::optional<PagingOptions> paging;  // --serve
  std::optional<SampleOptions> sample;
  std::vector<EntryOptions> entries;  // none: one list of steps

  bool fuse = true;  // false: every operator its own kernel
  std::vector<std::string> disabled_passes;
  bool programmatic_launch = true;  // CUDA, sm_90: kernels start before the one in front has ended
  bool precise_math = false;        // CUDA: no short forms of functions
  /// CUDA: products of 8-bit floats are added up in the tensor cores' accumulators alone, which
  /// have about 14 bits; else deep ones (k above 1,024) are promoted to float32 every 512 of k or
  /// sooner.
  bool fast_accumulation = false;
  std::string schedule;  // CUDA: one schedule for all kernels of its family, to measure it
  /// CUDA: a generated kernel that NVRTC does not take is an error. Otherwise its operators have
  /// kernels of their own, with a warning.
  bool strict = false;
  TuneOptions tuning;
  int jobs = 0;  // kernels to compile at once; 0: all cores
  /// Bytes that constants and tables may take which are computed while compiling: a model of a few
  /// kilobytes can ask for any amount. 0: half of the memory that this process may use.
  std::uint64_t max_compile_memory = 0;
  /// Folder of compiled kernels; empty: none. Without a value default_kernel_cache().
  std::optional<std::string> kernel_cache;

  /// Runs the plan and writes its errors into it. Above max_error there is no plan.
  std::optional<VerifyOptions> verify;

  Monitor monitor;
};

/// "4096", "512M", "1.5GB": bytes, with K, M, G or T for powers of 1024. Throws Error(kUsage).
SINTER_API std::uint64_t parse_bytes(std::string_view text);

/// $SINTER_CACHE_DIR (empty: none), else $XDG_CACHE_HOME/sinter, else ~/.cache/sinter, as far as
/// those are absolute; else none.
SINTER_API std::string default_kernel_cache();

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
};

/// Microseconds, but for counts.
struct ProfileReport {
  std::string target, shapes;  // of the plan, of the inputs
  MachineRates rates;
  std::vector<StepProfile> steps;                       // longest first
  double whole_us = 0;                                  // of the run as it is replayed
  double steps_us = 0;                                  // sum of the steps
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
