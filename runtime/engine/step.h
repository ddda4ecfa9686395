// SPDX-License-Identifier: Apache-2.0
// One step of the engine: its plan and its result.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/block_manager.h"
#include "runtime/grammar/grammar.h"

namespace sinter::engine {

/// Identifies one generated text; never reused.
using SequenceId = std::uint64_t;

/// Placeholder id: the token that the slot drew last, in an earlier step.
inline constexpr TokenId kLastDrawn = -1;
/// Placeholder id: a draft token that the executor guesses.
inline constexpr TokenId kDrafted = -2;

/// Assigns a slot to a sequence, with the sampling state besides logits. The executor updates that
/// state with the tokens it draws.
struct SlotStart {
  int slot = 0;
  std::shared_ptr<const SamplingParameters> sampling;
  std::uint64_t seed = 0;       // of this sample
  std::vector<TokenId> tokens;  // prompt and text so far; only with a repetition penalty
  std::uint64_t draws = 0;      // tokens drawn before
  std::shared_ptr<const grammar::Grammar> grammar;  // of a constraint
  std::shared_ptr<const EncoderOutput> encoded;     // of the request
  /// The tokens drawn before; only with a grammar, penalties of the text or
  /// SamplingParameters::adjust.
  std::vector<TokenId> text;
  /// Whether the text has ended, so that draws of steps planned before are of no use; null: no.
  std::shared_ptr<const bool> ended;
};

/// Copies a sequence's states to another slot.
struct StateCopy {
  int from = 0, to = 0;
};

/// Keeps the states behind a token in a slot.
struct StateStore {
  int token = 0;  // index in StepPlan::tokens
  int slot = 0;
};

/// States behind a prefix, which the step keeps or copies to a slot.
struct StateSnapshot {
  SequenceId sequence = 0;
  std::uint32_t admission = 0;
  int position = 0;  // tokens of the prefix, a multiple of the block size
  int slot = 0;
};

/// Consecutive tokens of one sequence.
struct SequenceStep {
  SequenceId sequence = 0;
  std::uint32_t admission = 0;  // how often the sequence was admitted
  int slot = 0;
  int first_token = 0, tokens = 0;               // range in StepPlan::tokens
  int first_position = 0;                        // position of first_token
  int first_block = 0, blocks = 0;               // its block table: range in StepPlan::block_tables
  int prompt_tokens = 0;                         // length of the whole prompt
  int state_source = -1;                         // slot of the states before them; -1: zeros
  std::shared_ptr<const PromptVectors> vectors;  // of the request
};

/// Draws a token from the logits of row `row`. With drafts, draws from rows row .. row + drafts, as
/// long as each drawn token equals the draft after its row.
struct SamplePlan {
  SequenceId sequence = 0;
  std::uint32_t admission = 0;
  int slot = 0;
  int row = 0;  // index in StepPlan::tokens
  int drafts = 0;
};

/// One step of an executor, in this order: start slots, copy blocks and states one after another,
/// run the tokens, draw. Tokens of sequences are packed end to end. Row i attends to positions of
/// its sequence up to its own. Its keys and values go to block block_tables[first_block + position
/// / block size], offset position % block size.
struct StepPlan {
  std::uint64_t number = 0;
  std::vector<SlotStart> starts;
  std::vector<BlockCopy> copies;
  std::vector<TokenId> tokens;          // ids, kLastDrawn or kDrafted
  std::vector<std::int32_t> positions;  // of each token
  std::vector<SequenceStep> sequences;  // in the order of tokens
  std::vector<BlockId> block_tables;
  std::vector<SamplePlan> samples;
  // Of models with states of fixed size.
  std::vector<StateCopy> state_copies;
  std::vector<StateStore> state_stores;  // in the order of tokens; the last token of a sequence has
                                         // one, and each draft and the token before
  std::vector<StateSnapshot> snapshots;  // for the scheduler
  /// Padded sizes, from ExecutorLimits::token_sizes and sequence_sizes.
  int padded_tokens = 0, padded_sequences = 0;

  bool empty() const { return tokens.empty(); }
};

struct SampleResult {
  std::vector<TokenId> tokens;          // 1 to drafts + 1; all but the last are accepted drafts
  std::vector<TokenLogprobs> logprobs;  // one for each token, if requested
  bool ends = false;                    // the constraint allows nothing after them
  std::string error;  // why the constraint has no further token; tokens may be empty
};

struct StepResult {
  std::vector<SampleResult> samples;  // in the order of the plan
  /// Tokens of each expert of each mixture in the step, by mixture; empty: not counted.
  std::vector<std::vector<std::uint64_t>> expert_tokens;
  double idle_seconds = 0;  // idle time after this step although another step was started
};

}  // namespace sinter::engine
