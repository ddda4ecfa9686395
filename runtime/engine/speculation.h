// SPDX-License-Identifier: Apache-2.0
// Draft tokens: guesses of what comes next, which one step checks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinter/engine.h>

#include "runtime/sampling/random.h"

namespace sinter::engine {

/// Prompt lookup (Saxena, "Prompt Lookup Decoding"): finds the longest match, of `least` to `most`
/// tokens, of the end of `tokens` with tokens before, of equally long ones the last, and returns up
/// to `count` tokens that followed it; nothing if there is none.
std::vector<TokenId> look_up_drafts(std::span<const TokenId> tokens, int least, int most,
                                    int count);

/// How many drafts hold, and the token behind them.
struct Acceptance {
  int accepted = 0;
  TokenId next = 0;
};

/// Rejection sampling of drafts that were drawn from distributions of their own (Leviathan, Kalman,
/// Matias, "Fast inference from transformers via speculative decoding", algorithm 1). Both are
/// probabilities of all tokens: `target` row by row for one row more than there are drafts,
/// `draft_of` for each draft. Draft i holds with probability min(1, target / draft); where one does
/// not, the token is drawn from the normalised max(0, target - draft). Tokens are distributed as
/// `target` alone draws them. The numbers are those of the draws from `first_draw` on of `seed`;
/// drafts must have been drawn with others. A draft that is certain (prompt lookup) needs none of
/// this: SlotSampler::sample.
Acceptance accept_drafts(std::span<const double> target, std::span<const double> draft_of,
                         std::span<const TokenId> drafts, std::uint64_t seed,
                         std::uint64_t first_draw);

}  // namespace sinter::engine
