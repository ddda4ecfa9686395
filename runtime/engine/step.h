// SPDX-License-Identifier: Apache-2.0
// One step of the engine: what runs, and what came of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/block_manager.h"
#include "runtime/grammar/grammar.h"

namespace sinter::engine {

/// One text that is generated; never used again.
using SequenceId = std::uint64_t;

/// Stands for a token's id: the one that the slot drew last, in an earlier step.
inline constexpr TokenId kLastDrawn = -1;
/// Stands for a draft token that the executor guesses itself.
inline constexpr TokenId kDrafted = -2;

/// A sequence takes a slot: what its draws depend on besides logits. The executor keeps it up to
/// date by the tokens that it draws.
struct SlotStart {
  int slot = 0;
  std::shared_ptr<const SamplingParameters> sampling;
  std::uint64_t seed = 0;       // of this sample
  std::vector<TokenId> tokens;  // with a repetition penalty: of the prompt and the text so far
  std::uint64_t draws = 0;      // tokens drawn before
  std::shared_ptr<const grammar::Grammar> grammar;  // of a constraint
  std::shared_ptr<const EncoderOutput> encoded;     // of the request
  /// With a grammar, penalties of the text or SamplingParameters::adjust: the tokens drawn before.
  std::vector<TokenId> text;
};

/// Consecutive tokens of one sequence.
struct SequenceStep {
  SequenceId sequence = 0;
  std::uint32_t admission = 0;  // how often the sequence was admitted
  int slot = 0;
  int first_token = 0, tokens = 0;  // among StepPlan::tokens
  int first_position = 0;           // of the first of them
  int first_block = 0, blocks = 0;  // its block table, among StepPlan::block_tables
  int prompt_tokens = 0;            // of the whole prompt
};

/// A token to draw from the logits of row `row`; with drafts, from each of the rows row .. row +
/// drafts, as long as the draft tokens behind `row` are what is drawn.
struct SamplePlan {
  SequenceId sequence = 0;
  std::uint32_t admission = 0;
  int slot = 0;
  int row = 0;  // among StepPlan::tokens
  int drafts = 0;
};

/// What an executor does, in this order: start slots, copy blocks one after the other, run the
/// tokens, draw. Tokens of sequences lie end to end; row i attends to the positions of its own
/// sequence up to its own. Its keys and values go to its position: block
/// block_tables[first_block + position / block size], place position % block size.
struct StepPlan {
  std::uint64_t number = 0;
  std::vector<SlotStart> starts;
  std::vector<BlockCopy> copies;
  std::vector<TokenId> tokens;          // or kLastDrawn, or kDrafted
  std::vector<std::int32_t> positions;  // of each token
  std::vector<SequenceStep> sequences;  // in the order of tokens
  std::vector<BlockId> block_tables;
  std::vector<SamplePlan> samples;
  /// Sizes to pad to: the next of ExecutorLimits::token_sizes and sequence_sizes.
  int padded_tokens = 0, padded_sequences = 0;

  bool empty() const { return tokens.empty(); }
};

struct SampleResult {
  std::vector<TokenId> tokens;          // 1 to drafts + 1; all but the last are drafts that held
  std::vector<TokenLogprobs> logprobs;  // for each, if asked for
  bool ends = false;                    // behind them the constraint allows nothing
  std::string error;  // why the constraint has no further token; tokens may be none
};

struct StepResult {
  std::vector<SampleResult> samples;  // as in the plan
  double idle_seconds = 0;  // how long nothing ran behind it though a further step was started
};

}  // namespace sinter::engine
