#include "runtime/engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/format_error.h"

namespace sinter::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The largest of `values`, NaN if one is: in lanes, so that it takes the time of reading them.
float largest(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> most;
  most.fill(-std::numeric_limits<float>::infinity());
  std::array<std::uint8_t, kLanes> nans = {};
  std::size_t i = 0;
  const auto take = [&](std::size_t lane, float value) {
    most[lane] = value > most[lane] ? value : most[lane];
    nans[lane] = static_cast<std::uint8_t>(nans[lane] | (value != value));
  };
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, values[i + lane]);
  for (; i < values.size(); ++i) take(0, values[i]);
  if (std::ranges::any_of(nans, [](std::uint8_t nan) { return nan != 0; }))
    return std::numeric_limits<float>::quiet_NaN();
  return *std::ranges::max_element(most);
}

/// 0 where equal, though both are infinite.
double score_of(double logit, double most, double temperature) {
  return logit == most ? 0 : (logit - most) / temperature;
}

std::vector<TokenId> allowed_tokens(std::span<const std::uint32_t> mask, std::size_t count) {
  std::vector<TokenId> tokens;
  if (mask.empty()) {
    tokens.resize(count);
    std::iota(tokens.begin(), tokens.end(), 0);
    return tokens;
  }
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
      tokens.push_back(static_cast<TokenId>(word * 32) + std::countr_zero(bits));
  return tokens;
}

/// Of the allowed tokens the first with the largest value.
template <typename T>
TokenId first_of_largest(std::span<const T> values, std::span<const std::uint32_t> mask) {
  if (mask.empty()) return static_cast<TokenId>(std::ranges::max_element(values) - values.begin());
  TokenId best = -1;
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      const auto token = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
      if (best < 0 || values[token] > values[static_cast<std::size_t>(best)])
        best = static_cast<TokenId>(token);
    }
  return best;
}

/// Gumbel noise is at most -log(2^-53).
constexpr double kMostNoise = 36.7368005696772;

}  // namespace

void check_sampling(const SamplingParameters& p, std::int64_t vocabulary) {
  if (!(p.temperature >= 0) || std::isinf(p.temperature))
    throw usage_error("temperature {} is not a number from 0 on", p.temperature);
  if (p.top_k < 0) throw usage_error("top-k {} is less than 0", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) throw usage_error("top-p {} is not in (0, 1]", p.top_p);
  if (!(p.min_p >= 0 && p.min_p <= 1)) throw usage_error("min-p {} is not in [0, 1]", p.min_p);
  if (!(p.repetition_penalty > 0) || std::isinf(p.repetition_penalty))
    throw usage_error("repetition penalty {} is not a number above 0", p.repetition_penalty);
  const auto check_token = [&](TokenId token, const char* what) {
    if (token < 0 || (vocabulary > 0 && token >= vocabulary))
      throw usage_error("{} {} is none of the model's {} tokens", what, token, vocabulary);
  };
  for (const auto& [token, bias] : p.logit_bias) {
    check_token(token, "logit bias: token");
    if (std::isnan(bias)) throw usage_error("the logit bias of token {} is not a number", token);
  }
  for (const TokenId token : p.stop_tokens) check_token(token, "stop token");
  for (const std::string& text : p.stop_strings)
    if (text.empty()) throw usage_error("a stop string is empty");
  if (p.samples < 1) throw usage_error("{} samples are none", p.samples);
  if (p.max_tokens < 1) throw usage_error("max tokens {} is less than 1", p.max_tokens);
  if (p.constraint && p.constraint->kind > Constraint::Kind::kStructuralTag)
    throw usage_error("the constraint's kind {} is not known",
                      static_cast<int>(p.constraint->kind));
  if (p.logprobs && *p.logprobs < 0)
    throw usage_error("{} log probabilities are less than 0", *p.logprobs);
}

std::vector<double> Candidates::probabilities() const {
  std::vector<double> result;
  double total = 0;
  for (const double score : scores) total += result.emplace_back(std::exp(score));
  for (double& value : result) value /= total;
  return result;
}

SlotSampler::SlotSampler(const SlotStart& start)
    : parameters_(start.sampling), seed_(start.seed), draws_(start.draws) {
  if (parameters_->repetition_penalty != 1) seen_.insert(start.tokens.begin(), start.tokens.end());
  if (start.grammar == nullptr) return;
  try {
    matcher_.emplace(start.grammar, parameters_->stop_tokens);
    for (const TokenId token : start.text) matcher_->accept(token);
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

void SlotSampler::prepare() {
  if (!matcher_ || !failure_.empty()) return;
  try {
    matcher_->mask();
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

std::span<const std::uint32_t> SlotSampler::mask() {
  if (!matcher_ || matcher_->has_ended()) return {};
  if (matcher_->is_stuck()) throw usage_error("no token of the model's goes on as it wants");
  return matcher_->mask();
}

bool SlotSampler::is_plain() const {
  return parameters_->logit_bias.empty() && parameters_->repetition_penalty == 1;
}

bool SlotSampler::is_most_likely() const {
  return parameters_->temperature == 0 && is_plain() && !parameters_->logprobs && !matcher_ &&
         failure_.empty();
}

SampleResult SlotSampler::take(std::span<const TokenId> most_likely,
                               std::span<const TokenId> drafts) {
  SampleResult result;
  for (std::size_t i = 0; i < most_likely.size(); ++i) {
    last_ = most_likely[i];
    ++draws_;
    result.tokens.push_back(last_);
    if (i == drafts.size() || last_ != drafts[i]) break;
  }
  return result;
}

std::vector<double> SlotSampler::adjusted(std::span<const float> logits) const {
  if (logits.empty()) throw invalid_model_error("the model gave no logits");
  std::vector<double> values(logits.begin(), logits.end());
  for (const auto& [token, bias] : parameters_->logit_bias)
    values[static_cast<std::size_t>(token)] += bias;
  for (const TokenId token : seen_) {
    double& value = values[static_cast<std::size_t>(token)];
    value = value > 0 ? value / parameters_->repetition_penalty
                      : value * parameters_->repetition_penalty;
  }
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); }))
    throw invalid_model_error("the model gave NaN as a logit");
  return values;
}

Candidates SlotSampler::candidates(std::span<const float> logits) {
  const SamplingParameters& p = *parameters_;
  const std::vector<double> values = adjusted(logits);
  Candidates result;
  result.tokens = allowed_tokens(mask(), values.size());
  const auto value_of = [&](TokenId token) { return values[static_cast<std::size_t>(token)]; };
  const auto more_likely = [&](TokenId a, TokenId b) {
    return value_of(a) > value_of(b) || (value_of(a) == value_of(b) && a < b);
  };
  const bool has_top_k = p.top_k > 0 && p.top_k < std::ssize(result.tokens);
  if (has_top_k) {
    const auto end = result.tokens.begin() + p.top_k;
    std::partial_sort(result.tokens.begin(), end, result.tokens.end(), more_likely);
    result.tokens.erase(end, result.tokens.end());
  } else if (p.top_p < 1) {
    std::ranges::sort(result.tokens, more_likely);
  }
  double most = -kInfinity;
  for (const TokenId token : result.tokens) most = std::max(most, value_of(token));
  for (const TokenId token : result.tokens)
    result.scores.push_back(score_of(value_of(token), most, p.temperature));
  if (p.top_p < 1) {
    double total = 0;
    for (const double score : result.scores) total += std::exp(score);
    std::size_t kept = 0;
    for (double before = 0; kept < result.scores.size() && before < p.top_p * total; ++kept)
      before += std::exp(result.scores[kept]);
    result.tokens.resize(kept), result.scores.resize(kept);
  }
  if (p.min_p > 0) {
    const double least = std::log(p.min_p);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < result.tokens.size(); ++i) {
      if (result.scores[i] < least) continue;
      result.tokens[kept] = result.tokens[i], result.scores[kept++] = result.scores[i];
    }
    result.tokens.resize(kept), result.scores.resize(kept);
  }
  return result;
}

TokenId SlotSampler::pick(std::span<const float> logits) {
  if (parameters_->temperature == 0) {
    if (!is_plain()) return first_of_largest<double>(adjusted(logits), mask());
    if (logits.empty()) throw invalid_model_error("the model gave no logits");
    const float most = largest(logits);
    if (std::isnan(most)) throw invalid_model_error("the model gave NaN as a logit");
    if (matcher_) return first_of_largest<float>(logits, mask());
    return static_cast<TokenId>(std::ranges::find(logits, most) - logits.begin());
  }
  const Candidates all = candidates(logits);
  const DrawNumbers numbers(seed_, draws_);
  TokenId best = all.tokens[0];
  double best_sum = -kInfinity;
  for (std::size_t i = 0; i < all.tokens.size(); ++i) {
    const double score = all.scores[i];
    if (score + kMostNoise < best_sum) continue;
    // With -log1p(-u) >= u a noise is at most -log(u): most tokens need no logarithm.
    const double u = numbers.uniform(all.tokens[i]);
    if (u > std::exp(score - best_sum) * (1 + 1e-9)) continue;
    const double sum = score + numbers.gumbel(all.tokens[i]);
    if (sum > best_sum) best = all.tokens[i], best_sum = sum;
  }
  return best;
}

TokenId SlotSampler::draw(std::span<const float> logits) {
  last_ = pick(logits);
  ++draws_;
  if (matcher_ && !matcher_->has_ended()) matcher_->accept(last_);
  if (parameters_->repetition_penalty != 1) seen_.insert(last_);
  return last_;
}

SampleResult SlotSampler::sample(std::span<const float> logits, std::span<const TokenId> drafts) {
  const std::size_t vocabulary = logits.size() / (drafts.size() + 1);
  SampleResult result;
  const bool had_ended = has_ended();
  for (std::size_t i = 0; i <= drafts.size() && failure_.empty(); ++i) {
    const auto row = logits.subspan(i * vocabulary, vocabulary);
    try {
      draw(row);
    } catch (const Error& error) {
      if (!matcher_ || error.code() == ErrorCode::kInvalidModel) throw;
      failure_ = error.what();
      break;
    }
    result.tokens.push_back(last_);
    if (parameters_->logprobs) result.logprobs.push_back(logprobs(row, last_));
    if (i == drafts.size() || last_ != drafts[i] || has_ended()) break;
  }
  if (!failure_.empty()) {
    result.error = "the constraint: " + failure_;
    if (last_ == kLastDrawn) last_ = 0;  // a step that was planned ahead runs some token
  }
  result.ends = has_ended() && !had_ended;
  return result;
}

TokenLogprobs SlotSampler::logprobs(std::span<const float> logits, TokenId token) const {
  const double most = largest(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp(score_of(logit, most, 1));
  const double log_total = std::log(total);
  const auto value_of = [&](TokenId id) {
    return static_cast<float>(score_of(logits[static_cast<std::size_t>(id)], most, 1) - log_total);
  };
  TokenLogprobs result{value_of(token), {}};
  const auto count = std::min(static_cast<std::size_t>(*parameters_->logprobs), logits.size());
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](TokenId a, TokenId b) {
                      const float x = logits[static_cast<std::size_t>(a)];
                      const float y = logits[static_cast<std::size_t>(b)];
                      return x > y || (x == y && a < b);
                    });
  for (std::size_t i = 0; i < count; ++i)
    result.likeliest.emplace_back(order[i], value_of(order[i]));
  return result;
}

}  // namespace sinter::engine
