// SPDX-License-Identifier: Apache-2.0
// A text that is generated, and the request that it belongs to.
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

/// The one order of all sequences, by which each gets its share: of those of one priority the
/// request that came first, and a level of priority is worth EngineOptions::priority_step. It never
/// changes, so each sequence has to wait only for those that came before it and, of a higher
/// priority, within a bounded time after it: none starves.
struct Rank {
  std::int64_t time = 0;  // nanoseconds: of arrival, less priority times priority_step
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
  std::int64_t max_tokens = 0;        // of a text, where no limit is asked for, too
  std::vector<SequenceId> sequences;  // those that have not ended
  /// Samples that begin when the prompt has been computed once, and share its blocks.
  std::vector<Sequence*> following;
};

struct Sequence {
  explicit Sequence(RequestState& of)
      : request(&of), sampling(of.sampling), text(of.sampling->stop_strings) {}

  SequenceId id = 0;
  RequestState* request;
  std::shared_ptr<const SamplingParameters> sampling;
  Rank rank;
  bool is_running = false;  // else it waits to be admitted, or follows another sample

  std::vector<TokenId> tokens;  // of the prompt and of the text, as far as known
  int prompt_tokens = 0;
  int pending = 0;   // tokens that steps in flight draw
  int planned = 0;   // positions with keys and values once the steps in flight have run
  int computed = 0;  // the same of the steps that have ended

  int slot = -1;
  bool starts_slot = false;  // the executor has not been told yet
  std::uint32_t admission = 0;
  BlockTable table;

  OutputText text;
  std::unique_ptr<TokenText> words;  // of EngineOptions::token_text
  std::optional<EngineTime> first_planned, last_token;

  /// Tokens to run before the next one can be drawn.
  int to_run() const { return static_cast<int>(tokens.size()) + pending - planned; }
  std::int64_t generated() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt_tokens;
  }
  /// Whether steps in flight draw its last token.
  bool is_complete() const { return generated() + pending >= request->max_tokens; }
};

}  // namespace sinter::engine
