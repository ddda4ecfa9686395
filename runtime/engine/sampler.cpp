// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/format_error.h"

namespace sinter::engine {
namespace {

/// Checks a token from draw_token or from a plan.
void check_drawn(std::int64_t token, std::int64_t vocabulary) {
  if (token >= vocabulary) throw invalid_model_error("the model gave NaN as a logit");
  if (token < 0)
    throw usage_error("no token of the vocabulary can continue the text under its constraint");
}

std::string range_of(const SamplingRow& row) {
  const SamplingRow open;
  if (row.most < open.most)
    return fmt::format("in {}{}, {}]", row.above_least ? '(' : '[', row.least, row.most);
  if (row.least == kSamplingAny) return "a number";
  return fmt::format("a number {} {}{}", row.above_least ? "above" : "from", row.least,
                     row.above_least ? "" : " on");
}

std::string of_constraint(const Error& error) {
  return std::string("the constraint: ") + error.what();
}

}  // namespace

void check_sampling(const SamplingParameters& p, std::int64_t vocabulary) {
  for (const SamplingRow& row : sampling_rows())
    if (const double value = row.get(p); !row.takes(value)) {
      std::string name = row.name;
      std::ranges::replace(name, '_', '-');
      throw usage_error("{} {} is not {}", name, value, range_of(row));
    }
  const auto check_token = [&](TokenId token, const char* what) {
    if (token < 0 || (vocabulary > 0 && token >= vocabulary))
      throw usage_error("{} {} is not in the model's vocabulary of {}", what, token, vocabulary);
  };
  for (const auto& [token, bias] : p.logit_bias) {
    check_token(token, "logit bias: token");
    if (std::isnan(bias)) throw usage_error("the logit bias of token {} is not a number", token);
  }
  for (const TokenId token : p.stop_tokens) check_token(token, "stop token");
  for (const std::string& text : p.stop_strings)
    if (text.empty()) throw usage_error("a stop string is empty");
  if (p.samples < 1) throw usage_error("samples is {}, and must be 1 or more", p.samples);
  if (p.max_tokens < 1 && p.max_tokens != SamplingParameters::kNoLimit)
    throw usage_error("max tokens {} is less than 1", p.max_tokens);
  if (p.min_tokens < 0 || (p.max_tokens >= 0 && p.min_tokens > p.max_tokens))
    throw usage_error("min tokens {} is not from 0 to max tokens, {}", p.min_tokens, p.max_tokens);
  if (p.constraint && p.constraint->kind > Constraint::Kind::kStructuralTag)
    throw usage_error("the constraint's kind {} is not known",
                      static_cast<int>(p.constraint->kind));
  if (p.logprobs && *p.logprobs < 0)
    throw usage_error("logprobs is {}, and must be 0 or more", *p.logprobs);
}

SlotSampler::SlotSampler(const SlotStart& start)
    : parameters_(start.sampling), ended_(start.ended), seed_(start.seed), draws_(start.draws) {
  for (const TokenId token : start.tokens) note_seen(token);
  if (parameters_->adjust) text_ = start.text;
  // Adds biases if a token is named twice.
  for (const auto& [token, bias] : parameters_->logit_bias) bias_of_[token].given += bias;
  if (has_text_penalty())
    for (const TokenId token : start.text) ++bias_of_[token].drawn;
  if (is_early())
    for (const TokenId token : parameters_->stop_tokens) bias_of_[token].stops = true;
  list_biases();
  if (start.grammar == nullptr) return;
  try {
    matcher_.emplace(start.grammar, parameters_->stop_tokens);
    for (const TokenId token : start.text) matcher_->accept(token);
  } catch (const Error& error) {
    failure_ = of_constraint(error);
  }
}

void SlotSampler::prepare() {
  if (!matcher_ || !failure_.empty()) return;
  try {
    matcher_->mask();
  } catch (const Error& error) {
    failure_ = of_constraint(error);
  }
}

void SlotSampler::note_seen(TokenId token) {
  if (parameters_->repetition_penalty == 1) return;
  const auto at = static_cast<std::size_t>(token);
  if (at / 32 >= seen_.size()) seen_.resize(at / 32 + 1);
  seen_[at / 32] |= 1U << (at % 32);
}

float SlotSampler::value_of(const Bias& bias) const {
  if (bias.stops && is_early()) return -std::numeric_limits<float>::infinity();
  double penalty = parameters_->frequency_penalty * static_cast<double>(bias.drawn);
  if (bias.drawn > 0) penalty += parameters_->presence_penalty;
  return static_cast<float>(bias.given - penalty);
}

void SlotSampler::list_biases() {
  biased_.clear();
  biases_.clear();
  for (const auto& [token, bias] : bias_of_)
    biased_.push_back(token), biases_.push_back(value_of(bias));
  biases_changed_ = true;
}

void SlotSampler::note_drawn(TokenId token) {
  if (!has_text_penalty()) return;
  Bias& bias = bias_of_[token];
  ++bias.drawn;
  const auto place = std::ranges::lower_bound(biased_, token) - biased_.begin();
  if (place == std::ssize(biased_) || biased_[static_cast<std::size_t>(place)] != token) {
    biased_.insert(biased_.begin() + place, token);
    biases_.insert(biases_.begin() + place, 0);
  }
  biases_[static_cast<std::size_t>(place)] = value_of(bias);
  biases_changed_ = true;
}

sampling::TokenSets SlotSampler::sets() {
  sampling::TokenSets sets{{}, seen_, biased_, biases_};
  if (!matcher_ || matcher_->has_ended()) return sets;
  if (matcher_->is_stuck())
    throw usage_error("no token of the vocabulary can continue the text under its constraint");
  sets.allowed = matcher_->mask();
  return sets;
}

bool SlotSampler::is_known_ahead(std::size_t drafts) {
  const bool changes = matcher_.has_value() || parameters_->repetition_penalty != 1 ||
                       has_text_penalty() || is_early();
  return failure_.empty() && (drafts == 0 || !changes) && !parameters_->adjust &&
         !(matcher_ && matcher_->is_stuck());
}

sampling::Draw SlotSampler::draw_behind(std::size_t drafts) const {
  const SamplingParameters& p = *parameters_;
  return {p.temperature,
          p.top_k,
          p.top_p,
          std::log(p.min_p),
          static_cast<float>(p.repetition_penalty),
          sampling::seed_of_draw(seed_, draws_ + drafts)};
}

std::span<const float> SlotSampler::adjusted(std::span<const float> logits) {
  if (!parameters_->adjust) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  parameters_->adjust(text_, adjusted_);
  return adjusted_;
}

sampling::Candidates SlotSampler::candidates(std::span<const float> logits) {
  return sampling::candidates(adjusted(logits), draw_behind(0), sets());
}

TokenId SlotSampler::pick(std::span<const float> logits) {
  if (logits.empty()) throw invalid_model_error("the model gave no logits");
  const std::int64_t token = sampling::draw_token(adjusted(logits), draw_behind(0), sets());
  check_drawn(token, std::ssize(logits));
  return static_cast<TokenId>(token);
}

void SlotSampler::accept(TokenId token) {
  last_ = token;
  const bool was_early = is_early();
  ++draws_;
  if (matcher_ && !matcher_->has_ended()) matcher_->accept(token);
  note_seen(token);
  note_drawn(token);
  if (parameters_->adjust) text_.push_back(token);
  if (was_early && !is_early()) list_biases();
}

TokenId SlotSampler::draw(std::span<const float> logits) {
  accept(pick(logits));
  return last_;
}

template <typename Next>
SampleResult SlotSampler::collect(std::span<const TokenId> drafts, const Next& next) {
  SampleResult result;
  const bool had_ended = has_ended();
  for (std::size_t i = 0; i <= drafts.size() && failure_.empty(); ++i) {
    try {
      next(i, result);
    } catch (const Error& error) {
      const bool is_of_model = !matcher_ || error.code() == ErrorCode::kInvalidModel;
      failure_ = is_of_model ? error.what() : of_constraint(error);
      break;
    }
    result.tokens.push_back(last_);
    if (i == drafts.size() || last_ != drafts[i] || has_ended()) break;
  }
  if (!failure_.empty()) {
    result.error = failure_;
    if (last_ == kLastDrawn) last_ = 0;  // a step planned ahead still needs a valid token id
  }
  result.ends = has_ended() && !had_ended;
  return result;
}

SampleResult SlotSampler::sample(std::span<const float> logits, std::span<const TokenId> drafts) {
  if (ended_ && *ended_) {
    if (last_ == kLastDrawn) last_ = 0;  // a step planned ahead still needs a valid token id
    return {};
  }
  const std::size_t vocabulary = logits.size() / (drafts.size() + 1);
  return collect(drafts, [&](std::size_t i, SampleResult& result) {
    const auto row = logits.subspan(i * vocabulary, vocabulary);
    draw(row);
    if (const auto count = logprobs())
      result.logprobs.push_back(
          sampling::logprobs_of(row, last_, static_cast<std::size_t>(*count)));
  });
}

SampleResult SlotSampler::take(std::span<const TokenId> drawn, std::span<const TokenId> drafts,
                               TokenId vocabulary, std::span<const TokenLogprobs> logprobs) {
  return collect(drafts, [&](std::size_t i, SampleResult& result) {
    check_drawn(drawn[i], vocabulary);
    accept(drawn[i]);
    if (!logprobs.empty()) result.logprobs.push_back(logprobs[i]);
  });
}

}  // namespace sinter::engine
