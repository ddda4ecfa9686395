// What passes are told and what they tell: the target, the user's options, decisions.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/target_traits.h"

namespace sinter::fusion {

// What all of fusion works on.
using ir::Attrs, ir::Dim, ir::Graph, ir::GraphBuilder, ir::Ints, ir::Node, ir::NodeId, ir::OpKind,
    ir::Range;
using ir::Ranges, ir::Shape, ir::TargetTraits, ir::Tensor, ir::TensorType, ir::Value, ir::ValueId;

enum class Precision { kModel, kFloat16, kBFloat16, kTf32 };

/// What `--state` asks for: inputs that are the outputs of the run before.
struct StateOptions {
  bool find = true;  // caches that the model changes at places are found by themselves
  std::vector<std::pair<std::string, std::string>> pairs;  // names of an input and an output
  std::optional<DType> cache_type;  // of 8 bits, `--cache-precision`: what caches are stored in
};

/// What layers are measured on while their weights become integers.
struct Calibration {
  /// Runs a graph on its inputs, in order.
  using Run = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

  std::vector<std::vector<Tensor>> samples;        // of the model's inputs, all of the same shapes
  std::size_t parts = 1;                           // how many of them one sample of the user gave
  std::function<Run(const Graph& graph)> compile;  // graphs whose sizes are numbers
  /// Of a stage: "rounding layers", "reading samples"; may be empty.
  std::function<void(std::string_view stage, std::size_t done, std::size_t all)> progress;
};

/// What `--weights` asks for: weights of products that become integers of few bits.
struct WeightOptions {
  int bits = 0;                 // 4 or 8; 0: weights stay as the model has them
  std::int64_t group = 0;       // elements along k that share a scale; 0: a whole channel
  std::int64_t channels = 1;    // that share the scales of their groups; of floats
  bool symmetric = true;        // no zero points
  bool floats = false;          // f8e4m3fn: 8 bits, symmetric, rounded to the nearest
  bool embeddings = false;      // tables that rows are gathered from, too
  bool last_as_others = false;  // false: layers that no other reads from have 8 bits at least
  // What rounding errors are compensated on; null: each weight is rounded to the nearest.
  std::shared_ptr<const Calibration> calibration;
  // With a calibration, layers of 4 bits whose output would be off by more have 8: times the root
  // of the mean layer's size over their own, since small layers cost little more so.
  double wide_error = 0.048;
  std::vector<std::string> keep;  // layers that stay: parts of names of ONNX nodes
  double max_error = std::numeric_limits<double>::infinity();  // of a layer's output; above: kept
};

/// What elements of an activation share a scale.
enum class ActivationScales {
  kStatic,  // all of them: one scale, from samples
  kToken,   // those of a row, whose scale is found in each run
  kBlock,   // 128 of a row, found in each run; weights have one for 128 x 128
};

/// What `--precision int8` and `fp8` ask for: products and convolutions of activations and constant
/// weights with operands of 8 bits. Samples, layers that stay and the most that one may be off by
/// are WeightOptions'.
struct EightBitOptions {
  std::optional<DType> type;  // of weights: kInt8 or a float of 8 bits; none: all stays as it is
  bool per_channel = true;    // weights have a scale for each output channel, else one for all
  ActivationScales activation_scales = ActivationScales::kStatic;
  std::optional<double> smoothing;  // exponent of SmoothQuant, for integers; 0: none; nothing: the
                                    // best of several for each layer
  bool compensate = true;           // with samples, products' weights make up for rounding errors
  double max_error = 0.015;  // of the model's outputs on the samples: layers stay until it holds
  std::vector<std::string> include;  // texts in names of layers that would stay for what they are
  bool emulate = false;              // layers that the target has no products of 8 bits for, too
  /// `--attention-precision`: of queries, keys, values and weights of attention: kFloat8E4M3FN.
  std::optional<DType> attention;
};

/// What `--serve` asks for: a decoder of many sequences at once, whose caches lie in blocks.
struct PagingOptions {
  std::int64_t block_size = 16;         // positions
  std::int64_t max_sequences = 256;     // of a step
  std::int64_t max_step_tokens = 2048;  // of all of them
  /// Of a sequence; 0: what the model's range and its tables of positions allow. page_caches writes
  /// what it has become.
  std::int64_t max_positions = 0;
};

/// Names of the inputs, of an output and of sizes of a plan that PagingOptions make.
namespace paged_names {
inline constexpr char kIds[] = "input_ids", kPositions[] = "positions",
                      kSlotMapping[] = "slot_mapping", kSequenceStarts[] = "sequence_starts",
                      kBlockTables[] = "block_tables", kSampleRows[] = "sample_rows";
/// What tokens are drawn by, and what is drawn: the operands and the results of SampleTokens.
inline constexpr char kSamplingReals[] = "sampling_reals",
                      kSamplingIntegers[] = "sampling_integers", kTokenSets[] = "token_sets",
                      kBiasedTokens[] = "biased_tokens", kTokenBiases[] = "token_biases",
                      kLogprobsWanted[] = "logprobs_wanted", kSampledTokens[] = "sampled_tokens",
                      kLikeliestTokens[] = "likeliest_tokens", kTokenLogprobs[] = "token_logprobs";
inline constexpr char kTokens[] = "tokens", kSequences[] = "sequences", kSamples[] = "samples",
                      kTableBlocks[] = "table_blocks", kCachePositions[] = "cache_positions",
                      kSetRows[] = "set_rows", kBiases[] = "biases";
}  // namespace paged_names

/// What became of one layer under WeightOptions or EightBitOptions. Errors are relative, in the
/// 2-norm.
struct QuantizedLayer {
  std::string name;           // its ONNX nodes
  std::int64_t n = 0, k = 0;  // of attention: the heads of values, and of queries and keys
  int bits = 0;               // 0: kept
  std::string type;  // of both operands, if the activation is rounded, too: "u8 x i8, zero 12";
  double weight_error = 0;
  double output_error = 0;  // on calibration samples, else on normal deviates of a fixed seed
  double bytes_before = 0, bytes_after = 0;
  std::string wider;  // why it has more bits than asked for; empty: it has not
  std::string kept;   // why the layer stays as it was; empty: it is quantized
};

/// A state that is stored in rows of 8 bits with scales, under StateOptions::cache_type.
struct QuantizedCache {
  std::string input, output, scales, output_scales;  // names of it and of the state of its scales
  DType from = DType::kFloat32, to = DType::kInt8;
  Shape shape;
  double error = 0;                          // of a row of normal deviates, in the 2-norm
  std::optional<Tensor> mean;                // of what is stored less it, as its shape broadcasts
  double bytes_before = 0, bytes_after = 0;  // of the state for a typical shape, scales and all
};

/// One decision about fusing two nodes, for --explain-fusion and --why.
struct Decision {
  std::string producer, consumer;  // printable names with origins
  bool fused = false;
  std::string reason;  // "fused: saves 1.5 MB", "no: 'MatMul_3' is a library call ..."
  std::vector<std::string> producer_origins, consumer_origins;  // ONNX nodes
  std::string pass;                                             // the driver notes it
  std::string sought;  // the operator that they would be part of: "Attention"; may be empty
  // What the cost model was asked about, for a typical shape; nothing if only legality decided:
  // bytes that are not moved if the two are one, launches not made, scalar operations repeated.
  double bytes = 0, launches = 0, operations = 0;
};

/// Why the result of a node lies as it lies, for --explain-fusion and --why.
struct LayoutChoice {
  std::string node;                  // printable
  std::vector<std::string> origins;  // its ONNX nodes
  // Traffic for what lies otherwise than it is read, around the node: as it is, and as it would be
  // in the next best order with its neighbours as they are.
  double bytes = 0, other_bytes = 0;
  std::string reason;  // "its result lies as [0, 2, 3, 1]; as [0, 1, 2, 3] it would be 6.4 MB, ..."
};

struct Context {
  TargetTraits target;
  bool fuse = true;  // false: --fuse=off, every operator its own kernel
  Precision precision = Precision::kModel;
  std::vector<Decision> decisions;
  std::vector<LayoutChoice> layouts;
  std::vector<std::string> precision_notes;  // what was lowered, what was kept and why
  std::vector<std::string> notes;            // what passes gave up on, and why
  std::int64_t max_memory = INT64_MAX;       // bytes that constants may take which are folded
  StateOptions states;
  WeightOptions weights;
  EightBitOptions eight_bit;
  std::optional<PagingOptions> paging;
  std::string position_table;  // the node whose table says how many positions a sequence has
  bool packed = false;         // --packed: sequences of a batch lie end to end, without padding
  std::vector<QuantizedLayer> layers;  // that `weights` and `eight_bit` ask about
  std::vector<QuantizedCache> caches;  // that `states` asks about
  /// Hashes of weights that lay_out_weights has transposed in one of the graphs that share them, so
  /// that it does in the next, too; null: no other graph shares any.
  std::set<std::uint64_t>* laid_out = nullptr;
};

}  // namespace sinter::fusion
