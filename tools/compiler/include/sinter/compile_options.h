// SPDX-License-Identifier: Apache-2.0
// What the compiler is asked: models, inputs, options, and who is told while it works.
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
  bool floats = false;          // floats: e4m3, or e2m1 in groups of 16 or 32; no zero points
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

/// What attention multiplies: the model's type (or that of Precision), or queries, keys, values and
/// weights of e4m3 with scales from WeightOptions::calibration.
enum class AttentionPrecision { kModel, kFloat8 };
/// "model", "fp8".
SINTER_API std::string_view to_string(AttentionPrecision precision);
SINTER_API AttentionPrecision parse_attention_precision(std::string_view text);

/// "model", "nvfp4", "mxfp4", "int8" or "int4", with ":group=N", ":asymmetric", ":embeddings",
/// ":head", ":wide=E" as `sinter compile --weights` takes them; calibration, kept layers and errors
/// stay empty.
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

/// A decoder of many sequences at once: tokens of all of them end to end, caches in blocks that
/// block tables name. `sinter serve` and Engine run such plans (tools/compiler/options/README.md).
struct PagingOptions {
  std::int64_t block_size = 16;         // positions of a block of the caches, a power of two
  std::int64_t max_sequences = 256;     // of a step
  std::int64_t max_step_tokens = 2048;  // of all sequences of a step
  std::int64_t max_positions = 0;       // of a sequence; 0: as many as the model has, by its tables
  std::int64_t few_tokens = 0;  // the most tokens of steps with own kernels; 0: of one token
};
/// "", or some of "block=16,sequences=256,step-tokens=2048,positions=8192,few-tokens=8".
SINTER_API PagingOptions parse_paging(std::string_view text);

struct ServeOptions {
  /// Models that are recognised as decoders are paged, unless states, entry points, packing or
  /// `verify` are asked for.
  bool find = true;
  std::optional<PagingOptions> paging;  // of every model, which is refused if it is no decoder
};

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
  // Each member, with its default, its flag, its keyword and its help, is a row of this file.
#define SINTER_MEMBER(type, name, standard) type name = standard;
#define SINTER_OPTION(type, name, standard, ...) type name = standard;
#define SINTER_PART(...)
#define SINTER_COMMAND(...)
#include <sinter/compile_option_rows.inc>

  Monitor monitor;
};

/// "4096", "512M", "1.5GB": bytes, with K, M, G or T for powers of 1024. Throws Error(kUsage).
SINTER_API std::uint64_t parse_bytes(std::string_view text);

/// $SINTER_CACHE_DIR (empty: none), else $XDG_CACHE_HOME/sinter, else ~/.cache/sinter, as far as
/// those are absolute; else none.
SINTER_API std::string default_kernel_cache();

}  // namespace sinter
