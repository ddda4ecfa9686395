// SPDX-License-Identifier: Apache-2.0
// A generated text, and the request that it belongs to.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/output_text.h"
#include "runtime/engine/step.h"

namespace sinter::engine {

/// The order in which sequences get resources: by arrival time, minus EngineOptions::priority_step
/// for each level of priority. The rank never changes. So a sequence waits only for earlier ones,
/// and for higher priorities that arrive within a bounded time after it: none starves.
struct Rank {
  std::int64_t time = 0;  // nanoseconds: arrival - priority * priority_step
  RequestId request = 0;
  int sample = 0;
  auto operator<=>(const Rank&) const = default;
};

struct Sequence;

struct RequestState {
  RequestId id = 0;
  GenerationRequest request;
  std::shared_ptr<const SamplingParameters> sampling;
  std::shared_ptr<const grammar::Grammar> grammar;  // of the constraint
  EngineTime arrival;
  std::int64_t max_tokens = 0;        // of a text, resolved if no limit was requested
  std::vector<SequenceId> sequences;  // not yet ended
  /// Samples that start once the prompt is computed, and share its blocks.
  std::vector<Sequence*> following;
};

struct Sequence {
  explicit Sequence(RequestState& of)
      : request(&of), sampling(of.sampling), text(of.sampling->stop_strings) {}

  SequenceId id = 0;
  RequestState* request;
  std::shared_ptr<const SamplingParameters> sampling;
  Rank rank;
  bool is_running = false;  // else it waits for admission or for another sample's prompt

  std::vector<TokenId> tokens;  // known tokens of the prompt and the text
  int prompt_tokens = 0;
  int pending = 0;   // tokens that steps in flight will draw
  int planned = 0;   // positions with keys and values after the steps in flight
  int computed = 0;  // positions with keys and values after the finished steps

  int slot = -1;
  bool starts_slot = false;  // the executor does not know the slot yet
  std::uint32_t admission = 0;
  BlockTable table;

  // Of models with states of fixed size.
  int state = -1;            // the sequence's slot
  int state_source = -1;     // the slot that the next step reads; -1: zeros
  std::vector<int> guesses;  // slots behind the drafts in flight
  int shared_end = 0;        // where others part from the prefix that it has, whose states are kept
  int last_end = 0;          // the last end of a block in front of its last token at admission

  std::shared_ptr<bool> ended = std::make_shared<bool>(false);  // for steps planned before
  OutputText text;
  std::unique_ptr<TokenText> words;  // from EngineOptions::token_text
  std::optional<EngineTime> first_planned, last_token;

  /// Tokens to run before the next draw.
  int to_run() const { return static_cast<int>(tokens.size()) + pending - planned; }
  std::int64_t generated() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt_tokens;
  }
  /// Whether steps in flight draw its last token.
  bool is_complete() const { return generated() + pending >= request->max_tokens; }
};

}  // namespace sinter::engine
