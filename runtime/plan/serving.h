// SPDX-License-Identifier: Apache-2.0
// What the bindings of a plan of many sequences (`compile --serve`) must be: one table, by which
// the compiler checks what it writes, the verifier what it loads, and the engine's executor binds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Names of inputs and outputs; fusion::paged_names are these (tools/compiler/build/build.cpp).
namespace serving_names {
inline constexpr char kIds[] = "input_ids", kPositions[] = "positions",
                      kSlotMapping[] = "slot_mapping", kSequenceStarts[] = "sequence_starts",
                      kBlockTables[] = "block_tables", kSampleRows[] = "sample_rows",
                      kSamplingReals[] = "sampling_reals",
                      kSamplingIntegers[] = "sampling_integers", kTokenSets[] = "token_sets",
                      kBiasedTokens[] = "biased_tokens", kTokenBiases[] = "token_biases",
                      kLogprobsWanted[] = "logprobs_wanted", kSampledTokens[] = "sampled_tokens",
                      kLikeliestTokens[] = "likeliest_tokens", kTokenLogprobs[] = "token_logprobs",
                      kCrossLimits[] = "cross_limits", kCrossTables[] = "cross_tables",
                      kTextLengths[] = "text_lengths";
}  // namespace serving_names

/// Where such a plan has what it is run by, and what its sizes are at most.
struct ServingPlan {
  // Numbers of inputs.
  std::size_t ids = 0, positions = 0, slots = 0, starts = 0, tables = 0, rows = 0;
  std::size_t reals = 0, integers = 0, sets = 0, biased = 0, biases = 0;
  std::optional<std::size_t> lengths;  // of models that choose a table by the text's length
  std::vector<std::size_t> caches;
  // Numbers of outputs.
  std::size_t logits = 0, drawn = 0;
  /// Absent in plans of before, which tell no log probabilities.
  struct Logprobs {
    std::size_t wanted = 0;               // an input
    std::size_t likeliest = 0, told = 0;  // outputs
    int most = 0;                         // of the likeliest tokens
  };
  std::optional<Logprobs> logprobs;
  /// Of decoders behind an encoder: its keys and values, in blocks of their own.
  struct Crossed {
    std::size_t limits = 0, tables = 0;  // inputs
    std::vector<std::size_t> given;      // inputs [.., positions, columns]
    int table_blocks = 0;                // of a sequence
    int sequence_positions = 0;          // at most table_blocks x block_size
    std::int64_t positions = 0;          // of all sequences at most
  };
  std::optional<Crossed> crossed;

  int vocabulary = 0;
  int tokens = 0, sequences = 0, samples = 0;  // of a step
  int table_blocks = 0, block_size = 0;        // of a sequence; positions of a block
  int sequence_positions = 0;                  // at most table_blocks x block_size
  std::uint64_t position_bytes = 0;            // of all caches
  std::int64_t cache_positions = 0;            // of a cache at most
};

/// Elements of a row of `sampling_reals` and of `sampling_integers`.
inline constexpr std::int64_t kSamplingReals = 4, kSamplingIntegers = 6;

/// Whether its manifest says that `plan` is one, and it has block tables.
bool is_serving(const fb::PlanT& plan);

/// Throws Error(kInvalidPlan) naming the binding if `plan`, whose indices have been checked, is not
/// as the table says. After it, the bindings have those ranks and types, sizes that share a name
/// there are equal for all numbers of tokens, sequences and samples, and no size is beyond what
/// --serve takes.
ServingPlan serving_of(const fb::PlanT& plan);

}  // namespace sinter::plan
