// SPDX-License-Identifier: Apache-2.0
// A sequence's sampling state besides logits, and drawing on the host.
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

/// Throws Error(kUsage) naming the first invalid parameter. `vocabulary`: number of tokens; 0:
/// unknown.
void check_sampling(const SamplingParameters& parameters, std::int64_t vocabulary);

/// Sampling state of one sequence.
class SlotSampler {
 public:
  explicit SlotSampler(const SlotStart& start);

  /// Draws a token from the logits of all tokens, as SamplingParameters says. Throws
  /// Error(kInvalidModel) if there are no logits or one is NaN, Error(kUsage) if the constraint
  /// allows no token.
  TokenId draw(std::span<const float> logits);

  /// The candidates of draw(), at a temperature above 0.
  sampling::Candidates candidates(std::span<const float> logits);

  /// Verifies `drafts`: `logits` has a row before the first and one after each. Draws row by row
  /// while the drawn token equals the draft, so tokens equal those drawn one by one. A draft is
  /// accepted with its probability, as in rejection sampling of a deterministic draft
  /// (speculation.h). The result reports a failed constraint or a NaN logit as its error. Nothing
  /// is drawn for a text that has ended.
  SampleResult sample(std::span<const float> logits, std::span<const TokenId> drafts);

  TokenId last() const { return last_; }

  /// Whether the text has ended: the constraint allows nothing more, or a stop token came. Tokens
  /// drawn after that are discarded.
  bool has_ended() const { return matcher_ && matcher_->has_ended(); }
  bool has_constraint() const { return matcher_.has_value(); }
  /// Computes the constraint's mask for the next token; takes some microseconds.
  void prepare();
  /// Biased tokens, ascending, and their biases: given ones, penalties of the text so far, and
  /// minus infinity for stop tokens that are not allowed yet.
  std::span<const TokenId> biased() const { return biased_; }
  std::span<const float> biases() const { return biases_; }
  /// Whether the biases have changed since the last call; true the first time.
  bool take_bias_change() { return std::exchange(biases_changed_, false); }

  /// Number of likeliest tokens with requested log probabilities, beside the token's own; nullopt:
  /// none at all.
  std::optional<int> logprobs() const { return parameters_->logprobs; }

  /// Whether a draw after `drafts` drafts depends only on known data and logits, so that a device
  /// can draw.
  bool is_known_ahead(std::size_t drafts);
  /// Parameters of the draw after `drafts` more tokens, and its sets; only if is_known_ahead().
  /// Valid until the next change. Throws Error(kUsage) if the constraint has no token.
  sampling::Draw draw_behind(std::size_t drafts) const;
  sampling::TokenSets sets();
  /// sample() for tokens that a device has drawn with draw_behind() and sets(), with log
  /// probabilities if requested. In place of a token, `vocabulary` means a NaN logit in the row, -1
  /// that no token is allowed.
  SampleResult take(std::span<const TokenId> drawn, std::span<const TokenId> drafts,
                    TokenId vocabulary, std::span<const TokenLogprobs> logprobs = {});

 private:
  TokenId pick(std::span<const float> logits);
  /// The logits after SamplingParameters::adjust.
  std::span<const float> adjusted(std::span<const float> logits);
  /// Updates the state with a drawn token.
  void accept(TokenId token);
  void note_seen(TokenId token);
  /// The parts of a bias.
  struct Bias {
    float given = 0;
    std::int64_t drawn = 0;  // count; kept only with a penalty
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
  std::shared_ptr<const bool> ended_;
  std::uint64_t seed_, draws_;
  std::vector<std::uint32_t> seen_;  // bitmask; only with a repetition penalty
  std::map<TokenId, Bias> bias_of_;
  std::vector<TokenId> biased_;  // keys of bias_of_, in order
  std::vector<float> biases_;
  bool biases_changed_ = true;
  TokenId last_ = kLastDrawn;
  std::optional<grammar::Matcher> matcher_;  // only with a constraint
  std::vector<TokenId> text_;                // drawn tokens; only with SamplingParameters::adjust
  std::vector<float> adjusted_;              // logits
  std::string failure_;                      // why no more tokens are drawn
};

}  // namespace sinter::engine
