// SPDX-License-Identifier: Apache-2.0
// What a sequence's draws depend on besides logits, and draws on the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/step.h"
#include "runtime/sampling/draw.h"
#include "runtime/sampling/random.h"

namespace sinter::engine {

/// Throws Error(kUsage) naming the first parameter that means nothing. `vocabulary`: tokens that
/// there are; 0: unknown.
void check_sampling(const SamplingParameters& parameters, std::int64_t vocabulary);

/// The state of one sequence's draws.
class SlotSampler {
 public:
  explicit SlotSampler(const SlotStart& start);

  /// A token by the logits of all tokens, as SamplingParameters says. Throws Error(kInvalidModel)
  /// if there are no logits or one of them is NaN, and Error(kUsage) if the constraint has no
  /// token.
  TokenId draw(std::span<const float> logits);

  /// What draw() would draw from, at a temperature above 0.
  sampling::Candidates candidates(std::span<const float> logits);

  /// Draws behind `drafts.size()` tokens that were guessed: `logits` has a row behind each and one
  /// in front. Row by row, as long as what is drawn is the draft. So the tokens are those that
  /// would have been drawn one by one, and a guess holds as often as its probability, as in
  /// rejection sampling of a draft that is certain of it (speculation.h). A constraint that fails,
  /// and a logit that is NaN, is the result's error.
  SampleResult sample(std::span<const float> logits, std::span<const TokenId> drafts);

  TokenId last() const { return last_; }

  /// Whether the text has ended, by a stop token or for want of anything else, as its constraint
  /// has it. What is drawn then is nobody's.
  bool has_ended() const { return matcher_ && matcher_->has_ended(); }
  bool has_constraint() const { return matcher_.has_value(); }
  /// Finds what the constraint allows next, which takes some microseconds.
  void prepare();
  /// Tokens with a bias, ascending, and the biases: those that are given, penalties of the text so
  /// far, and minus infinity of stop tokens that may not come yet.
  std::span<const TokenId> biased() const { return biased_; }
  std::span<const float> biases() const { return biases_; }
  /// Whether they have changed since the last call; true the first time.
  bool take_bias_change() { return std::exchange(biases_changed_, false); }

  /// Of how many of the likeliest tokens log probabilities are asked for, beside each token's own;
  /// nothing: not of these either.
  std::optional<int> logprobs() const { return parameters_->logprobs; }

  /// Whether what a draw behind `drafts` drafts depends on is known before the logits are: then a
  /// device can draw.
  bool is_known_ahead(std::size_t drafts);
  /// The draw behind `drafts` further ones, and its sets; only if is_known_ahead(). They are valid
  /// until the next change. Throws Error(kUsage) if the constraint has no token.
  sampling::Draw draw_behind(std::size_t drafts) const;
  sampling::TokenSets sets();
  /// sample(), where the token of each row is drawn already, as draw_behind() and sets() say, and
  /// its log probabilities are known, if there are any to tell. `vocabulary` in the place of a
  /// token says that a logit of the row is NaN, -1 that no token is allowed.
  SampleResult take(std::span<const TokenId> drawn, std::span<const TokenId> drafts,
                    TokenId vocabulary, std::span<const TokenLogprobs> logprobs = {});

 private:
  TokenId pick(std::span<const float> logits);
  /// The logits that count.
  std::span<const float> adjusted(std::span<const float> logits);
  /// A token that was drawn.
  void accept(TokenId token);
  void note_seen(TokenId token);
  /// What a bias is the sum of.
  struct Bias {
    float given = 0;
    std::int64_t drawn = 0;  // how often; counted only with a penalty
    bool stops = false;
  };
  float value_of(const Bias& bias) const;
  void note_drawn(TokenId token);
  void list_biases();
  bool has_text_penalty() const {
    return parameters_->presence_penalty != 0 || parameters_->frequency_penalty != 0;
  }
  bool is_early() const {
    return draws_ < static_cast<std::uint64_t>(std::max<std::int64_t>(parameters_->min_tokens, 0));
  }
  template <typename Next>
  SampleResult collect(std::span<const TokenId> drafts, const Next& next);

  std::shared_ptr<const SamplingParameters> parameters_;
  std::uint64_t seed_, draws_;
  std::vector<std::uint32_t> seen_;  // bits; only with a repetition penalty
  std::map<TokenId, Bias> bias_of_;
  std::vector<TokenId> biased_;  // of bias_of_, in its order
  std::vector<float> biases_;
  bool biases_changed_ = true;
  TokenId last_ = kLastDrawn;
  std::optional<grammar::Matcher> matcher_;  // only with a constraint
  std::vector<TokenId> text_;                // that was drawn; only with SamplingParameters::adjust
  std::vector<float> adjusted_;              // logits
  std::string failure_;                      // why nothing more is drawn
};

}  // namespace sinter::engine
