// SPDX-License-Identifier: Apache-2.0
// --sample: adds the choice of the next token to the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// How a token is chosen, and the names of bindings. Of several names, the first that the model has
/// counts.
struct SamplerOptions {
  double temperature = 0;  // 0: greedy, the first of equally likely tokens
  std::int64_t top_k = 0;  // number of most likely tokens kept; 0: all
  double top_p = 1;        // keeps the fewest most likely tokens with this total probability
  std::string ids = "input_ids";
  std::string logits = "logits";
  std::vector<std::string> position = {"position", "position_ids", "cache_position"};
  bool keep_logits = false;  // also as an output

  bool is_greedy() const { return temperature == 0; }
};

/// Bindings that append_sampler() adds. A state's output has the name of its input after `kNext`.
namespace sampler_names {
inline constexpr std::string_view kToken = "token";               // output: i64[1]
inline constexpr std::string_view kTokenState = "sampled_token";  // state: i64[1], that token
inline constexpr std::string_view kRandomState =
    "random_state";  // state: u64[1], initially the seed
inline constexpr std::string_view kNext = "next_";
}  // namespace sampler_names

/// `graph` with a sampler after its logits. The logits' last row determines the output `token` that
/// replaces them; -1 if a logit is NaN. The token is kept as a state, which an input id below 0
/// refers to. An integer input of one element with the first token's position becomes a state that
/// each run advances. After the first run the host thus supplies nothing.
///
/// Greedy: the index of the largest logit, the first of equal ones. Otherwise, in float64: logits
/// are divided by the temperature. Of the top_k largest (equal ones by ascending id), those stay
/// that have less than top_p probability before them. The token has the largest sum of scaled logit
/// and Gumbel noise -log(-log(1 - u)), which samples from the softmax. u = (x + 1/2) / 2^52; x is
/// the upper 52 bits of number id + 1 of a SplitMix64 sequence. That sequence's seed is the step's
/// number of the SplitMix64 sequence seeded by `random_state` (Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators"). Equal seeds draw equal tokens.
///
/// Throws Error(kUsage) for meaningless options, a binding that is missing or has the wrong type,
/// more than one sequence at a time, and names that the model already uses.
Graph append_sampler(const Graph& graph, const SamplerOptions& options);

}  // namespace sinter::fusion
