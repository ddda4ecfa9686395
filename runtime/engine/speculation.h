// SPDX-License-Identifier: Apache-2.0
// Draft tokens: guesses of the next tokens, which one step verifies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinter/engine.h>

#include "runtime/sampling/random.h"

namespace sinter::engine {

/// Prompt lookup (Saxena, "Prompt Lookup Decoding"). Finds the longest earlier match, `least` to
/// `most` tokens, of the end of `tokens`; the latest if equally long. Returns up to `count` tokens
/// that followed it; empty without a match.
std::vector<TokenId> look_up_drafts(std::span<const TokenId> tokens, int least, int most,
                                    int count);

/// The number of accepted drafts, and the token after them.
struct Acceptance {
  int accepted = 0;
  TokenId next = 0;
};

/// Rejection sampling of drafts that were drawn from their own distributions (Leviathan, Kalman,
/// Matias, "Fast inference from transformers via speculative decoding", algorithm 1). `target` has
/// rows of probabilities of all tokens, one row more than drafts; `draft_of` has a row for each
/// draft. Draft i is accepted with probability min(1, target / draft). On rejection, the token is
/// drawn from the normalized max(0, target - draft). Tokens then follow the target's distribution.
/// Uses the random numbers of draws `first_draw` and later of `seed`; the drafts must use others.
/// Deterministic drafts (prompt lookup) do not need it: SlotSampler::sample.
Acceptance accept_drafts(std::span<const double> target, std::span<const double> draft_of,
                         std::span<const TokenId> drafts, std::uint64_t seed,
                         std::uint64_t first_draw);

}  // namespace sinter::engine
