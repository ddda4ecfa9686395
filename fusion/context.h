// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of passes: the target, the user's options, decisions.
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

#include "ir/constants/recipe.h"
#include "ir/graph.h"
#include "ir/ranks/collective_rates.h"
#include "ir/target_traits.h"

namespace sinter::fusion {

// Names that all of fusion uses.
using ir::Attrs, ir::Dim, ir::Graph, ir::GraphBuilder, ir::Ints, ir::Node, ir::NodeId, ir::OpKind,
    ir::Range;
using ir::Ranges, ir::Shape, ir::TargetTraits, ir::Tensor, ir::TensorType, ir::Value, ir::ValueId;

enum class Precision { kModel, kFloat16, kBFloat16, kTf32 };

/// `--state`: inputs that receive outputs of the previous run.
struct StateOptions {
  bool find = true;  // detects caches that the model updates at indices
  std::vector<std::pair<std::string, std::string>> pairs;  // names of an input and an output
  std::optional<DType> cache_type;  // `--cache-precision`: 8-bit storage type of caches
};

/// Samples on which layers are measured when their weights are quantized.
struct Calibration {
  /// Runs a compiled graph on its inputs, in order.
  using Run = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

  std::vector<std::vector<Tensor>> samples;        // inputs of the model, all of the same shapes
  std::size_t parts = 1;                           // samples made from each one of the user's
  std::function<Run(const Graph& graph)> compile;  // for graphs of constant sizes
  /// Progress of a stage: "rounding layers", "reading samples"; may be empty.
  std::function<void(std::string_view stage, std::size_t done, std::size_t all)> progress;
};

/// `--weights`: weights of matmuls that are quantized.
struct WeightOptions {
  int bits = 0;                 // 4 or 8; 0: keeps weights as they are
  std::int64_t group = 0;       // consecutive k's that share a scale; 0: a whole channel
  std::int64_t channels = 1;    // channels that share the scales of their groups; for floats
  bool symmetric = true;        // no zero points
  bool floats = false;          // f8e4m3fn, or with 4 bits f4e2m1; symmetric, to nearest
  bool embeddings = false;      // also embedding tables
  bool last_as_others = false;  // false: layers whose result no other layer reads have at least 8
                                // bits
  // Samples for compensating rounding errors (GPTQ); null: round to nearest.
  std::shared_ptr<const Calibration> calibration;
  // With a calibration, 4-bit layers get 8 bits if their output error is larger. The limit is
  // scaled by the root of (mean layer size / own size), as small layers cost little.
  double wide_error = 0.048;
  std::vector<std::string> keep;  // layers to keep: parts of ONNX node names
  double max_error = std::numeric_limits<double>::infinity();  // of a layer's output; above it the
                                                               // layer is kept
};

/// Granularity of activation scales.
enum class ActivationScales {
  kStatic,  // one scale, from samples
  kToken,   // one for each row, computed in each run
  kBlock,   // one for each 128 of a row, computed in each run; weights have one for 128 x 128
};

/// `--precision int8` and `fp8`: matmuls and convolutions of activations and constant weights with
/// 8-bit operands. WeightOptions has the samples, the layers to keep and the maximum error of one
/// layer.
struct EightBitOptions {
  std::optional<DType> type;  // of weights: kInt8 or an 8-bit float; none: no layer changes
  bool per_channel = true;    // one scale for each output channel, otherwise one for all
  ActivationScales activation_scales = ActivationScales::kStatic;
  std::optional<double> smoothing;  // exponent of SmoothQuant, for integers; 0: none; unset: the
                                    // best of several for each layer
  bool compensate = true;           // with samples: weights compensate for rounding errors
  double max_error = 0.015;  // of the model's outputs on the samples; layers are kept until it
                             // holds
  std::vector<std::string> include;  // parts of names of layers that would be kept by default
  bool emulate = false;              // also layers that the target cannot multiply in 8 bits
  /// `--attention-precision`: type of queries, keys, values and weights of attention:
  /// kFloat8E4M3FN.
  std::optional<DType> attention;
};

/// `--serve`: a decoder of many sequences at once, with paged caches.
struct PagingOptions {
  std::int64_t block_size = 16;         // positions
  std::int64_t max_sequences = 256;     // in a step
  std::int64_t max_step_tokens = 2048;  // over all sequences
  /// Of a sequence; 0: as many as the model's range and position tables allow. page_caches sets the
  /// result.
  std::int64_t max_positions = 0;
  bool counts_experts = false;  // adds the output of expert_offsets
};

/// Names of inputs, an output and sizes in a plan made with PagingOptions.
namespace paged_names {
inline constexpr char kIds[] = "input_ids", kPositions[] = "positions",
                      kSlotMapping[] = "slot_mapping", kSequenceStarts[] = "sequence_starts",
                      kBlockTables[] = "block_tables", kSampleRows[] = "sample_rows";
/// Of models that choose a table by how many tokens there are: as many as the prompt has for its
/// tokens, else as many as a token and those before.
inline constexpr char kTextLengths[] = "text_lengths";
/// Names of SampleTokens's operands and results.
inline constexpr char kSamplingReals[] = "sampling_reals",
                      kSamplingIntegers[] = "sampling_integers", kTokenSets[] = "token_sets",
                      kBiasedTokens[] = "biased_tokens", kTokenBiases[] = "token_biases",
                      kLogprobsWanted[] = "logprobs_wanted", kSampledTokens[] = "sampled_tokens",
                      kLikeliestTokens[] = "likeliest_tokens", kTokenLogprobs[] = "token_logprobs";
/// Of mixtures of experts, [mixtures, experts + 1]: the first row of each expert.
inline constexpr char kExpertOffsets[] = "expert_offsets";
/// Vectors in place of embeddings, such as those of an image: [given, width], and each token's row
/// of them, -1 for its own embedding. The one-sequence graph has the same names, rows [1, tokens].
inline constexpr char kGivenVectors[] = "given_vectors", kGivenRows[] = "given_rows";
/// Positions that turn queries and keys, where there are several of a token: [axes, tokens].
inline constexpr char kRotaryPositions[] = "rotary_positions";
/// Of what an encoder gives: how many of its positions a token's sequence has, and their blocks.
inline constexpr char kCrossLimits[] = "cross_limits", kCrossTables[] = "cross_tables";
inline constexpr char kTokens[] = "tokens", kSequences[] = "sequences", kSamples[] = "samples",
                      kTableBlocks[] = "table_blocks", kCachePositions[] = "cache_positions",
                      kSetRows[] = "set_rows", kBiases[] = "biases", kGiven[] = "given",
                      kCrossBlocks[] = "cross_blocks", kCrossPositions[] = "cross_positions";
}  // namespace paged_names

/// The result of one layer under WeightOptions or EightBitOptions. Errors are relative, in the
/// 2-norm.
struct QuantizedLayer {
  std::string name;           // names of its ONNX nodes
  std::int64_t n = 0, k = 0;  // for attention: head size of values, and of queries and keys
  int bits = 0;               // 0: kept
  std::string type;  // of both operands, if the activation is rounded too: "u8 x i8, zero 12"
  double weight_error = 0;
  double output_error = 0;  // on calibration samples, otherwise on normal deviates with a fixed
                            // seed
  double bytes_before = 0, bytes_after = 0;
  std::string wider;  // why it has more bits than requested; otherwise empty
  std::string kept;   // why the layer is unchanged; empty if it is quantized
};

/// A state stored as 8-bit rows with scales, under StateOptions::cache_type.
struct QuantizedCache {
  std::string input, output, scales, output_scales;  // names of the state and of that of its scales
  DType from = DType::kFloat32, to = DType::kInt8;
  Shape shape;
  double error = 0;                          // of a row of normal deviates, in the 2-norm
  std::optional<Tensor> mean;                // subtracted before storing; broadcasts to the shape
  double bytes_before = 0, bytes_after = 0;  // of the state with its scales, for a typical shape
};

/// One decision whether to fuse two nodes, for --explain-fusion and --why.
struct Decision {
  std::string producer, consumer;  // printable names with origins
  bool fused = false;
  std::string reason;  // "fused: saves 1.5 MB", "no: 'MatMul_3' is a library call ..."
  std::vector<std::string> producer_origins, consumer_origins;  // ONNX nodes
  std::string pass;                                             // set by the driver
  std::string sought;  // the operator that they would be part of: "Attention"; may be empty
  // Input of the cost model for a typical shape; zero if only legality decided. Fusing saves
  // `bytes` of traffic and `launches`, and repeats `operations`.
  double bytes = 0, launches = 0, operations = 0;
};

/// Why the result of a node has its layout, for --explain-fusion and --why.
struct LayoutChoice {
  std::string node;                  // printable
  std::vector<std::string> origins;  // its ONNX nodes
  // Traffic of layout changes around the node: as chosen, and with the next best layout if its
  // neighbours keep theirs.
  double bytes = 0, other_bytes = 0;
  std::string reason;  // "its result lies as [0, 2, 3, 1]; as [0, 1, 2, 3] it would be 6.4 MB, ..."
};

/// `--tensor-parallel`: one graph for several devices, each of which computes a part (sharding/).
struct ShardingOptions {
  std::int64_t ranks = 1;
  /// Of each device: bytes and operations of products per second.
  double memory_bandwidth = 1, product_rate = 1;
  ir::CollectiveRates links;
};

/// How the ranks share a node, for --explain-sharding.
struct ShardedNode {
  std::string node;                      // printable
  std::vector<std::string> origins;      // its ONNX nodes
  std::string split;                     // "column", "heads", "all reduce"
  double bytes = 0, rank_bytes = 0;      // read and written by one device alone, and by each rank
  double seconds = 0, rank_seconds = 0;  // estimates; of a collective the former is 0
  bool is_collective = false;
};
/// A state of which each rank has a part.
struct ShardedState {
  std::string input, output;
  int axis = 0;
  std::int64_t parts = 0;  // fewer than ranks: consecutive ranks have the same
};
/// The result of `ShardingOptions`, for a typical shape.
struct ShardingReport {
  std::vector<ShardedNode> nodes;  // products, attention, states, and collectives, in order
  std::vector<ShardedState> states;
  double weight_bytes = 0, rank_weight_bytes = 0;  // constants, all and those of a rank
  double seconds = 0, rank_seconds = 0;            // of all nodes
  double collective_seconds = 0;                   // of rank_seconds
  /// What passes and code generation decide by the values of rank 0's weights.
  std::shared_ptr<ir::ReadLog> reads;
};

struct Context {
  TargetTraits target;
  bool fuse = true;  // false for --fuse=off: every operator gets its own kernel
  Precision precision = Precision::kModel;
  std::vector<Decision> decisions;
  std::vector<LayoutChoice> layouts;
  std::vector<std::string> precision_notes;  // what was lowered, what was kept, and why
  std::vector<std::string> notes;            // what passes did not do, and why
  std::int64_t max_memory = INT64_MAX;       // bytes limit of a folded constant
  StateOptions states;
  WeightOptions weights;
  EightBitOptions eight_bit;
  std::optional<PagingOptions> paging;
  std::string position_table;  // node with the table that limits the positions of a sequence
  bool packed = false;         // --packed: concatenates a batch's sequences without padding
  std::vector<QuantizedLayer> layers;  // layers affected by `weights` and `eight_bit`
  std::vector<QuantizedCache> caches;  // caches affected by `states`
  ShardingOptions sharding;
  ShardingReport sharded;
  /// Hashes of weights that lay_out_weights transposed in one of several graphs that share them, so
  /// that it does so in the others; null: nothing is shared.
  std::set<std::uint64_t>* laid_out = nullptr;
};

}  // namespace sinter::fusion
