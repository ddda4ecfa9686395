// SPDX-License-Identifier: Apache-2.0
// Models, inputs, options and callbacks of the compiler.
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

// Diagnostics.

enum class Severity {
  kNote,     // what was done, where it might surprise
  kWarning,  // an assumption about the model that may be wrong, or an option without effect
  kError     // there is no plan
};

/// "note", "warning", "error".
SINTER_API std::string_view to_string(Severity severity);

struct Diagnostic {
  Severity severity = Severity::kNote;
  /// Machine-readable: an ErrorCode's name ("unsupported", "invalid_model"), or for notes and
  /// warnings "import", "passes", "precision", "weights", "tuning", "accuracy",
  /// "serve", "paged".
  std::string code;
  std::string message;              // self-contained: it also names the node
  std::string node;                 // ONNX node; empty: not about a single node
  std::string op;                   // its operator and version: "Loop-16", "com.example::Norm-1"
  std::vector<std::string> shapes;  // types of its inputs: "f32[batch, 8]"; "?": unknown
  std::string hint;                 // a remedy; empty: unknown
};

/// The exception of every compiler call: the Error that ended it, with earlier diagnostics and,
/// last, the reason. That is one diagnostic of severity kError per refused node, else a single one.
class SINTER_API CompileError : public Error {
 public:
  CompileError(const Error& error, std::vector<Diagnostic> diagnostics)
      : Error(error), diagnostics_(std::move(diagnostics)) {}
  ~CompileError() override;

  const std::vector<Diagnostic>& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Callbacks and cancellation of a call. One thread at a time calls back, not necessarily the
/// caller's. An exception from a callback ends the call and reaches its caller unchanged.
struct Monitor {
  /// Receives each diagnostic once, as it arises. Errors and results contain all of them, except
  /// results that are text: why, inspect_model, graph_text.
  std::function<void(const Diagnostic& diagnostic)> on_diagnostic;
  /// Receives `done` of `total` for a stage; `total` may grow. Stages: "import", "passes",
  /// "rounding layers" (weights), "reading samples", "smoothing", "choosing scales", "measuring
  /// errors" (8-bit operands), "tuning kernels", "compiling kernels", "reference", "measuring". A
  /// stage may repeat.
  std::function<void(std::string_view stage, std::size_t done, std::size_t total)> on_progress;
  /// On a stop request, a call throws CompileError(kCancelled) between two nodes, passes, kernels
  /// or timings, and leaves no plan. Caches keep finished work: compiled kernels, and schedules if
  /// all timings were complete.
  std::stop_token stop;
};

// Models and inputs.

/// A model: an ONNX file, Graph text, or the bytes of either.
struct Model {
  std::string path;                  // empty: `bytes` is the model
  std::span<const std::byte> bytes;  // must stay valid during the call
  /// Folder of external data for `bytes`; empty: models with external data are refused.
  std::string folder;
  std::string name = "model";  // the model's name in a plan from `bytes`

  Model() = default;
  Model(std::string file) : path(std::move(file)) {}
  Model(const char* file) : path(file) {}
  explicit Model(std::span<const std::byte> model, std::string external_data = "")
      : bytes(model), folder(std::move(external_data)) {}
};

/// Shapes by input name.
using Shapes = std::map<std::string, std::vector<std::int64_t>>;
/// Parses trtexec's syntax, "ids:1x64,mask:1x64"; "x:" is a scalar. Throws Error(kUsage).
SINTER_API Shapes parse_shapes(std::string_view text);

/// Constraints on a symbolic dimension.
struct DimRange {
  std::int64_t min = 0, max = 0;  // inclusive; equal: a constant
  std::int64_t multiple_of = 1;
  /// A dimension or an expression of dimensions ("past + seq") that this one always equals; the
  /// fields above are then ignored.
  std::string same_as = {};
};
/// By dimension name.
using DimRanges = std::map<std::string, DimRange>;
/// Parses "seq=1..512", "batch=8", "h=32..960/32" (multiples of 32), "rows=batch" or
/// "total=past+seq" and adds it to `ranges`. Throws Error(kUsage).
SINTER_API void parse_dim(std::string_view text, DimRanges& ranges);

/// Upper bounds of data-dependent sizes, by the name of the model's value that holds the size, or
/// of the node that computes it.
using Bounds = std::map<std::string, std::int64_t>;
/// Parses "frames=1000" and adds it to `bounds`. Throws Error(kUsage).
SINTER_API void parse_bound(std::string_view text, Bounds& bounds);

/// A named tensor in host memory. Its data must stay valid during the call.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

/// Inputs for measurements: given tensors, and random numbers for other inputs.
struct RunInputs {
  std::vector<NamedTensor> tensors;
  std::vector<std::string> files;  // FILE.npz, NAME=FILE.npy or NAME=FILE.pb
  Shapes shapes;  // shapes of random inputs; unspecified dimensions take their minimum
  /// Uniform distribution in [low, high], by input. Default: floats are normal, integers 0 or 1;
  /// masks whose tokens a plan counts are all ones.
  std::map<std::string, std::pair<double, double>> ranges;
  std::uint64_t seed = 0;
};

// Options.

/// kInt8 and kFloat8: matmuls and convolutions with 8-bit operands (EightBitOptions); the rest is
/// float16 on a GPU and the model's own types on the CPU.
enum class Precision { kModel, kFloat16, kBFloat16, kTf32, kInt8, kFloat8 };
/// "model", "fp16", "bf16", "tf32", "int8", "fp8".
SINTER_API std::string_view to_string(Precision precision);
SINTER_API Precision parse_precision(std::string_view text);

/// Weight-only quantization of matmuls.
struct WeightOptions {
  int bits = 0;                 // 8 or 4; 0: no quantization
  std::int64_t group = 0;       // elements along k that share a scale; 0: one scale per channel
  bool symmetric = true;        // no zero points
  bool floats = false;          // floats: e4m3, or e2m1 in groups of 16 or 32; no zero points
  bool embeddings = false;      // also quantizes tables from which rows are gathered (8 bits)
  bool last_as_others = false;  // with 4 bits: the last layer also has 4; false: 8
  /// With 4 bits and calibration: a layer gets 8 bits if its output error, scaled to a layer of
  /// mean size, exceeds this; 0: none.
  double wide_error = 0.048;
  std::vector<std::string> keep;  // layers whose name contains one of these stay unquantized
  double max_layer_error = 0;     // layers with a larger output error stay unquantized; 0: no limit
  /// Samples of the model's inputs. They serve to compensate rounding errors and, with
  /// Precision::kInt8 and kFloat8, to determine ranges and errors. A sample has an input's shape;
  /// an array may have a leading dimension of samples. Files: FILE.npz.
  std::vector<NamedTensor> calibration;
  std::vector<std::string> calibration_files;
};

/// Elements of an activation that share a scale: the whole tensor (determined from the samples), a
/// row, or 128 elements of a row. With kBlock (floats only), weights have a scale for each 128 x
/// 128 block. Row and block scales are computed in each run.
enum class ActivationScales { kStatic, kToken, kBlock };
/// "static", "token", "block".
SINTER_API std::string_view to_string(ActivationScales scales);
SINTER_API ActivationScales parse_activation_scales(std::string_view text);

/// 8-bit operands of matmuls under Precision::kInt8 and kFloat8. WeightOptions has the samples, the
/// layers to keep and the error limit of a layer.
struct EightBitOptions {
  bool per_channel = true;  // weights have a scale per output channel, else one per tensor
  ActivationScales activation_scales = ActivationScales::kStatic;
  /// SmoothQuant's exponent, 0 to 1, for integers; 0: off; not set: the best of several for each
  /// layer.
  std::optional<double> smoothing;
  bool compensate = true;    // with samples, matmuls' weights compensate rounding errors
  double max_error = 0.015;  // limit of the outputs' errors on the samples: layers stay unquantized
                             // until it holds
  /// Quantizes layers whose name contains one of these, although they would be excluded by kind:
  /// the last layer, depthwise convolutions.
  std::vector<std::string> include;
  /// Emulates matmuls that the target lacks in float on rounded operands, to measure accuracy
  /// without such a device.
  bool emulate = false;
};

/// Operands of attention: the model's type (or that of Precision), or e4m3 queries, keys, values
/// and weights with scales from WeightOptions::calibration.
enum class AttentionPrecision { kModel, kFloat8 };
/// "model", "fp8".
SINTER_API std::string_view to_string(AttentionPrecision precision);
SINTER_API AttentionPrecision parse_attention_precision(std::string_view text);

/// Parses "model", "nvfp4", "mxfp4", "int8" or "int4" with ":group=N", ":asymmetric",
/// ":embeddings", ":head", ":wide=E", as `sinter compile --weights` does. Leaves calibration, kept
/// layers and errors empty.
SINTER_API WeightOptions parse_weights(std::string_view text);

/// Storage of key/value caches: the model's type (or that of Precision), or 8 bits with a scale per
/// row of a head.
enum class CachePrecision { kModel, kFloat8, kInt8 };
/// "model", "fp8", "int8".
SINTER_API std::string_view to_string(CachePrecision precision);
SINTER_API CachePrecision parse_cache_precision(std::string_view text);

/// Inputs that are outputs of the previous run and kept by sessions.
struct StateOptions {
  bool find = true;                                        // find caches automatically
  std::vector<std::pair<std::string, std::string>> pairs;  // input and output
  /// Not kModel: applies to every cache among the states; kUnsupported, naming it, if one is
  /// unsuitable. The scales of such a state "key" are another state, "key.scales".
  CachePrecision cache_precision = CachePrecision::kModel;
};

/// A paged decoder of many concurrent sequences: their tokens are concatenated, and block tables
/// locate their caches' blocks. `sinter serve` and Engine run such plans
/// (tools/compiler/options/README.md).
struct PagingOptions {
  std::int64_t block_size = 16;         // positions per cache block, a power of two
  std::int64_t max_sequences = 256;     // per step
  std::int64_t max_step_tokens = 2048;  // tokens of all sequences in a step
  std::int64_t max_positions = 0;       // per sequence; 0: the model's limit, from its tables
  std::int64_t few_tokens = 0;     // maximum tokens of steps with dedicated kernels; 0: one token
  std::int64_t expert_counts = 0;  // 1: steps tell the tokens of each expert of mixtures
};
/// "" or several of "block=16,sequences=256,step-tokens=2048,positions=8192,few-tokens=8".
SINTER_API PagingOptions parse_paging(std::string_view text);

struct ServeOptions {
  /// Makes recognized decoders paged, unless states, entry points, packing or `verify` are
  /// requested.
  bool find = true;
  std::optional<PagingOptions> paging;  // makes every model paged; one that is no decoder is
                                        // refused
};

/// Separate steps for some dimensions; weights and states are shared.
struct EntryOptions {
  std::string name;
  DimRanges limits;  // only `min` and `max` are used
};
/// "prefill:seq=2..2048", "decode:seq=1,batch=1".
SINTER_API EntryOptions parse_entry(std::string_view text);

/// Schedules of generated kernels: timed on this machine's GPU, or read from a file of choices.
struct TuneOptions {
  double seconds = 0;  // time budget; 0: no timing
  /// File of choices, read and written. Empty: the plan's path plus ".tuning" if kernels are timed,
  /// else none; plans in memory need a name here to be timed.
  std::string file;
  std::string gpu;  // GPU whose choices are used; empty: this machine's, or the only one in the
                    // file
  Shapes shapes;    // shapes for timing; other symbols take their maximum, at most 512
  int device = 0;
  /// Libraries with the plan's host operators. Without them, the algorithms of libraries, which are
  /// timed in runs of the whole plan, are chosen by the plan's sessions.
  std::vector<OperatorLibrary> operator_libraries;
};

/// Compares a run with the reference evaluation of the imported model in float64.
struct VerifyOptions {
  RunInputs inputs;
  SessionOptions session;
  /// Limit of ||a - b|| / ||b|| for an output; 0: depends on precision and weights (2e-5 for
  /// float32).
  double max_error = 0;
  int runs = 1;  // number of runs; all must give the same bits
  /// Folder for outputs.npz, reference.npz and rounded.npz (the reference with each operator's
  /// result rounded to its type); empty: not saved.
  std::string save_folder;
};

struct CompileOptions {
  // Each member is a row of this file, with default, flag, keyword and help.
#define SINTER_MEMBER(type, name, standard) type name = standard;
#define SINTER_OPTION(type, name, standard, ...) type name = standard;
#define SINTER_PART(...)
#define SINTER_COMMAND(...)
#include <sinter/compile_option_rows.inc>

  Monitor monitor;
};

/// Parses a size: "4096", "512M", "1.5GB"; K, M, G and T are powers of 1024. Throws Error(kUsage).
SINTER_API std::uint64_t parse_bytes(std::string_view text);

/// $SINTER_CACHE_DIR (empty: no cache), else $XDG_CACHE_HOME/sinter, else ~/.cache/sinter. Relative
/// paths are ignored.
SINTER_API std::string default_kernel_cache();

}  // namespace sinter
