// Draws tokens on the host: the definition that samplers on devices are tested against, and what
// executors without one use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/random.h"
#include "runtime/engine/step.h"

namespace sinter::engine {

/// Throws Error(kUsage) naming the first parameter that means nothing. `vocabulary`: tokens that
/// there are; 0: unknown.
void check_sampling(const SamplingParameters& parameters, std::int64_t vocabulary);

/// Tokens that may be drawn, with scores whose softmax they are drawn from.
struct Candidates {
  std::vector<TokenId> tokens;
  std::vector<double> scores;  // logits less the largest, over the temperature

  /// Of each token, in their order.
  std::vector<double> probabilities() const;
};

/// The state of one sequence's draws.
class SlotSampler {
 public:
  explicit SlotSampler(const SlotStart& start);

  /// A token by the logits of all tokens, as SamplingParameters says. Throws Error(kInvalidModel)
  /// if there are no logits or one of them is NaN, and Error(kUsage) if the constraint has no
  /// token.
  TokenId draw(std::span<const float> logits);

  /// What draw() would draw from, at a temperature above 0.
  Candidates candidates(std::span<const float> logits);

  /// Draws behind `drafts.size()` tokens that were guessed: `logits` has a row behind each and one
  /// in front. Row by row, as long as what is drawn is the draft. So the tokens are those that
  /// would have been drawn one by one, and a guess holds as often as its probability, as in
  /// rejection sampling of a draft that is certain of it (speculation.h). A constraint that fails
  /// is the result's error.
  SampleResult sample(std::span<const float> logits, std::span<const TokenId> drafts);

  TokenId last() const { return last_; }

  /// Whether the text has ended, by a stop token or for want of anything else, as its constraint
  /// has it. What is drawn then is nobody's.
  bool has_ended() const { return matcher_ && matcher_->has_ended(); }
  /// Finds what the constraint allows next, which is to be done while the logits are computed.
  void prepare();

  /// Whether a draw is the first of the most likely tokens, and nobody asks how likely it is.
  bool is_most_likely() const;
  /// sample(), where the most likely token of each row is known; only if is_most_likely().
  SampleResult take(std::span<const TokenId> most_likely, std::span<const TokenId> drafts);

 private:
  /// Logits with bias and penalty.
  std::vector<double> adjusted(std::span<const float> logits) const;
  bool is_plain() const;
  /// Of a constraint the tokens that may come; empty: all may.
  std::span<const std::uint32_t> mask();
  TokenId pick(std::span<const float> logits);
  TokenLogprobs logprobs(std::span<const float> logits, TokenId token) const;

  std::shared_ptr<const SamplingParameters> parameters_;
  std::uint64_t seed_, draws_;
  std::unordered_set<TokenId> seen_;  // only with a repetition penalty
  TokenId last_ = kLastDrawn;
  std::optional<grammar::Matcher> matcher_;  // only with a constraint
  std::string failure_;                      // of the constraint
};

}  // namespace sinter::engine
