// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/config/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 31;

double required(const ConfigKeys& keys, std::string_view key) {
  const auto value = keys.number(key);
  if (!value || *value <= 0)
    throw invalid_model_error("'{}' is missing or not positive", keys.spelled(key));
  return *value;
}

void scale_llama3(const ConfigKeys& keys, std::vector<float>& frequencies) {
  const auto factor = static_cast<float>(required(keys, "rope_scaling.factor"));
  const double low = required(keys, "rope_scaling.low_freq_factor"),
               high = required(keys, "rope_scaling.high_freq_factor"),
               original = required(keys, "rope_scaling.original_max_position_embeddings");
  for (float& frequency : frequencies) {
    const float length = static_cast<float>(2 * std::numbers::pi) / frequency;
    const float slow = frequency / factor;
    if (length > static_cast<float>(original / low)) {
      frequency = slow;
    } else if (length >= static_cast<float>(original / high)) {
      const float smooth = (static_cast<float>(original) / length - static_cast<float>(low)) /
                           static_cast<float>(high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

/// YaRN (arXiv:2309.00071): slow pairs are scaled, fast ones are not, those between are mixed.
void scale_yarn(const ConfigKeys& keys, double base, std::int64_t rotated, std::int64_t positions,
                bool truncates, Rotary& rotary) {
  const double factor = required(keys, "rope_scaling.factor");
  const auto original = static_cast<double>(
      keys.size_or("rope_scaling.original_max_position_embeddings", positions, kLongest));
  const double fast = keys.number("rope_scaling.beta_fast").value_or(32),
               slow = keys.number("rope_scaling.beta_slow").value_or(1);
  const auto magnitude = [&](double weight) {
    return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1;
  };
  const auto given = keys.number("rope_scaling.attention_factor");
  const double denominator = keys.number("rope_scaling.mscale_all_dim").value_or(0),
               numerator = keys.is_gguf()  // which has no other
                               ? denominator
                               : keys.number("rope_scaling.mscale").value_or(0);
  rotary.factor = numerator != 0 && denominator != 0 ? magnitude(numerator) / magnitude(denominator)
                                                     : magnitude(1);
  // llama.cpp multiplies, transformers replaces.
  if (given) rotary.factor = keys.is_gguf() ? rotary.factor * *given : *given;
  const auto dims = static_cast<double>(rotated);
  const auto pair_of = [&](double rotations) {
    return dims * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = pair_of(fast), high = pair_of(slow);
  if (keys.flag("rope_scaling.truncate").value_or(truncates))
    low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < rotary.frequencies.size(); ++i) {
    float& frequency = rotary.frequencies[i];
    const auto ramp =
        std::clamp(static_cast<float>((static_cast<double>(i) - low) / (high - low)), 0.0F, 1.0F);
    const float kept = 1 - ramp;
    frequency = frequency / static_cast<float>(factor) * (1 - kept) + frequency * kept;
  }
}

std::vector<float> divided(double base, std::int64_t rotated, const std::vector<double>& by,
                           std::string_view what) {
  std::vector<float> frequencies = rotary_frequencies(base, rotated);
  if (by.size() != frequencies.size())
    throw invalid_model_error("'{}' has {} numbers; {} pairs of a head are rotated", what,
                              by.size(), frequencies.size());
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (!(by[i] > 0)) throw invalid_model_error("'{}' has numbers that are not positive", what);
    frequencies[i] /= static_cast<float>(by[i]);
  }
  return frequencies;
}

std::vector<double> numbers_of(const TensorFile& weights, std::string_view name) {
  const StoredTensor stored = weights.read(name);
  const auto* plain = std::get_if<ir::Tensor>(&stored.value);
  if (plain == nullptr || !is_float(plain->dtype()))
    throw invalid_model_error("tensor '{}' is not of floats", name);
  return plain->to_doubles();
}

/// Frequencies of short and of long texts (arXiv:2402.13753).
void scale_long(const ConfigKeys& keys, double base, std::int64_t rotated, std::int64_t positions,
                std::vector<double> by_short, std::vector<double> by_long, Rotary& rotary) {
  const auto outer = keys.integer("original_max_position_embeddings"),
             inner = keys.integer("rope_scaling.original_max_position_embeddings");
  rotary.original = outer ? *outer : inner.value_or(positions);
  if (rotary.original < 2 || rotary.original > kLongest)
    throw invalid_model_error("'original_max_position_embeddings' is {}", rotary.original);
  double factor = keys.number("rope_scaling.factor").value_or(1);
  if (outer || inner)
    factor = static_cast<double>(positions) / static_cast<double>(rotary.original);
  rotary.factor =
      keys.number("rope_scaling.attention_factor")
          .value_or(factor <= 1
                        ? 1
                        : std::sqrt(1 + std::log(factor) /
                                            std::log(static_cast<double>(rotary.original))));
  // Both are tables of angles, with a row for each position.
  constexpr std::int64_t kMostAngles = 1 << 24;
  if ((positions + rotary.original) * (rotated / 2) > kMostAngles)
    throw unsupported_error(
        "{} positions of a model of short and long factors make tables of more than {} angles: "
        "lessen '{}'",
        positions, kMostAngles, keys.spelled("max_position_embeddings"));
  rotary.frequencies = divided(base, rotated, by_short, "short_factor");
  if (positions > rotary.original)
    rotary.long_frequencies = divided(base, rotated, by_long, "long_factor");
}

}  // namespace

std::vector<float> rotary_frequencies(double base, std::int64_t rotated) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < rotated; i += 2)
    frequencies.push_back(1.0F / std::pow(static_cast<float>(base),
                                          static_cast<float>(i) / static_cast<float>(rotated)));
  return frequencies;
}

Rotary read_rotary(const ConfigKeys& keys, const TensorFile& weights, double base,
                   std::int64_t rotated, std::int64_t positions, bool truncates) {
  Rotary rotary{rotary_frequencies(base, rotated), {}, 0, 1};
  auto type = keys.text("rope_scaling.rope_type");
  if (!type) type = keys.text("rope_scaling.type");
  if (keys.is_gguf() && weights.has("rope_factors_short.weight")) {
    scale_long(keys, base, rotated, positions, numbers_of(weights, "rope_factors_short.weight"),
               numbers_of(weights, "rope_factors_long.weight"), rotary);
    return rotary;
  }
  if (keys.is_gguf() && weights.has("rope_freqs.weight"))  // Llama 3's
    rotary.frequencies =
        divided(base, rotated, numbers_of(weights, "rope_freqs.weight"), "rope_freqs.weight");
  if (!type || *type == "default" || *type == "none") return rotary;
  if (*type == "linear") {
    const auto factor = static_cast<float>(required(keys, "rope_scaling.factor"));
    for (float& frequency : rotary.frequencies) frequency /= factor;
  } else if (*type == "llama3") {
    scale_llama3(keys, rotary.frequencies);
  } else if (*type == "yarn") {
    scale_yarn(keys, base, rotated, positions, truncates, rotary);
  } else if ((*type == "longrope" || *type == "su") && !keys.is_gguf()) {
    const auto short_factor = keys.numbers("rope_scaling.short_factor"),
               long_factor = keys.numbers("rope_scaling.long_factor");
    if (!short_factor || !long_factor)
      throw invalid_model_error("'rope_scaling' lacks its short_factor or long_factor");
    scale_long(keys, base, rotated, positions, *short_factor, *long_factor, rotary);
  } else {
    throw unsupported_error("'{}' is '{}'; known are linear, llama3, yarn and longrope. {}",
                            keys.spelled("rope_scaling.rope_type"), ir::shown(*type), kOtherWay);
  }
  return rotary;
}

}  // namespace sinter::frontend
