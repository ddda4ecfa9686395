// --sample: the choice of the next token becomes a part of the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// How a token is chosen, and which bindings of the model are what. Where several names stand, the
/// first that the model has.
struct SamplerOptions {
  double temperature = 0;  // 0: greedy, the first of the most likely tokens
  std::int64_t top_k = 0;  // of so many of the most likely tokens; 0: of all
  double top_p = 1;        // of the fewest most likely ones that have this probability together
  std::string ids = "input_ids";
  std::string logits = "logits";
  std::vector<std::string> position = {"position", "position_ids", "cache_position"};
  bool keep_logits = false;  // as an output, too

  bool is_greedy() const { return temperature == 0; }
};

/// Bindings that append_sampler adds. A state's output is called as its input behind `kNext`.
namespace sampler_names {
inline constexpr std::string_view kToken = "token";               // output: i64[1]
inline constexpr std::string_view kTokenState = "sampled_token";  // state: i64[1], that token
inline constexpr std::string_view kRandomState =
    "random_state";  // state: u64[1], the seed at first
inline constexpr std::string_view kNext = "next_";
}  // namespace sampler_names

/// `graph` with a sampler behind its logits: instead of them there is the output `token`, which the
/// last row of them chooses; -1 if one of them is not a number. The token is kept as a state, and
/// an id below 0 stands for it; an integer input of one element that says the first token's
/// position becomes a state that each run advances by its tokens. So a run behind the first needs
/// nothing from the host.
///
/// Greedy: the index of the largest logit, the first of equals. Else, in float64: logits are
/// divided by the temperature; of the top_k largest (equal ones in the order of their ids) those
/// stay before which less than top_p of their probability lies; and the token is the one with the
/// largest sum of scaled logit and Gumbel noise -log(-log(1 - u)), which draws from their softmax.
/// u = (x + 1/2) / 2^52 with x the upper 52 bits of number id + 1 of the SplitMix64 sequence whose
/// seed is the step's number of the SplitMix64 sequence that `random_state` seeds (Steele, Lea,
/// Flood, "Fast splittable pseudorandom number generators"): the same seed draws the same tokens.
///
/// Throws Error(kUsage) for options that mean nothing, a binding that is missing or of another
/// type, more than one sequence at a time, and names that the model has already.
Graph append_sampler(const Graph& graph, const SamplerOptions& options);

}  // namespace sinter::fusion
