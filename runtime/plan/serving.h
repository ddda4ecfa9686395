// SPDX-License-Identifier: Apache-2.0
// The required bindings of a paged plan (`compile --serve`), as one table: the compiler checks what
// it writes, the verifier what it loads, and the engine's executor binds by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Names of inputs and outputs; fusion::paged_names are these (tools/compiler/build/build.cpp).
namespace serving_names {
inline constexpr char kIds[] = "input_ids", kLogits[] = "logits", kPositions[] = "positions",
                      kSlotMapping[] = "slot_mapping", kSequenceStarts[] = "sequence_starts",
                      kBlockTables[] = "block_tables", kSampleRows[] = "sample_rows",
                      kSamplingReals[] = "sampling_reals",
                      kSamplingIntegers[] = "sampling_integers", kTokenSets[] = "token_sets",
                      kBiasedTokens[] = "biased_tokens", kTokenBiases[] = "token_biases",
                      kLogprobsWanted[] = "logprobs_wanted", kSampledTokens[] = "sampled_tokens",
                      kLikeliestTokens[] = "likeliest_tokens", kTokenLogprobs[] = "token_logprobs",
                      kCrossLimits[] = "cross_limits", kCrossTables[] = "cross_tables",
                      kTextLengths[] = "text_lengths", kExpertOffsets[] = "expert_offsets",
                      kStateOffsets[] = "state_offsets", kStateSources[] = "state_sources",
                      kStateSlots[] = "state_slots", kStateStores[] = "state_stores",
                      kGivenVectors[] = "given_vectors", kGivenRows[] = "given_rows",
                      kRotaryPositions[] = "rotary_positions";
}  // namespace serving_names

/// The bindings that the engine uses of such a plan, and its maximum sizes.
struct ServingPlan {
  // Indices of inputs.
  std::size_t ids = 0, positions = 0, slots = 0, starts = 0, tables = 0, rows = 0;
  std::size_t reals = 0, integers = 0, sets = 0, biased = 0, biases = 0;
  std::optional<std::size_t> lengths;  // of models that choose a table by the text's length
  std::vector<std::size_t> caches;
  // Indices of outputs.
  std::size_t logits = 0, drawn = 0;
  /// Absent in older plans, which return no log probabilities.
  struct Logprobs {
    std::size_t wanted = 0;               // an input
    std::size_t likeliest = 0, told = 0;  // outputs
    int most = 0;                         // maximum number of likeliest tokens
  };
  std::optional<Logprobs> logprobs;
  /// For decoders with cross-attention: the encoder's keys and values, in blocks of their own.
  struct Crossed {
    std::size_t limits = 0, tables = 0;  // indices of inputs
    std::vector<std::size_t> given;      // indices of inputs [.., positions, columns]
    int table_blocks = 0;                // per sequence
    int sequence_positions = 0;          // at most table_blocks x block_size
    std::int64_t positions = 0;          // maximum for all sequences
  };
  std::optional<Crossed> crossed;
  /// For decoders with states of fixed size, [slots, ..].
  struct States {
    std::size_t offsets = 0, sources = 0, slots = 0, stores = 0;  // indices of inputs
    std::vector<std::size_t> pools;                               // indices of inputs
    std::uint64_t bytes = 0;                                      // of a slot of all pools
    std::int64_t most = 0;                                        // slots of a pool
  };
  std::optional<States> states;
  /// For decoders that take vectors in place of tokens' embeddings.
  struct Given {
    std::size_t vectors = 0, rows = 0;  // indices of inputs
    DType type = DType::kFloat32;
    std::int64_t most = 0, width = 0;  // vectors of a step; their elements
  };
  std::optional<Given> given;
  /// For decoders whose tokens have several rotary positions.
  struct Rotary {
    std::size_t positions = 0;  // an input [axes, tokens]
    int axes = 0;
  };
  std::optional<Rotary> rotary;
  /// Of plans that count the tokens of each expert.
  struct Experts {
    std::size_t offsets = 0;  // an output [mixtures, experts + 1]
    std::int64_t mixtures = 0, experts = 0;
  };
  std::optional<Experts> experts;

  int vocabulary = 0;
  int tokens = 0, sequences = 0, samples = 0;  // maxima of a step
  int table_blocks = 0, block_size = 0;        // blocks per sequence; positions per block
  int sequence_positions = 0;                  // at most table_blocks x block_size
  std::uint64_t position_bytes = 0;            // sum over all caches; 0: there are only states
  std::int64_t cache_positions = 0;            // maximum for a cache
};

/// Row lengths of `sampling_reals` and `sampling_integers`.
inline constexpr std::int64_t kSamplingReals = 4, kSamplingIntegers = 6;

/// Whether the manifest of `plan` says that it serves, and it has block tables.
bool is_serving(const fb::PlanT& plan);

/// Throws Error(kInvalidPlan) naming the first binding that differs from the table; the indices of
/// `plan` must be checked already. Afterwards the bindings have those ranks and types. Sizes of one
/// name are equal for all numbers of tokens, sequences and samples. No size exceeds the limits of
/// --serve.
ServingPlan serving_of(const fb::PlanT& plan);

}  // namespace sinter::plan
