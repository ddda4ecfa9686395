// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/timestamp_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sinter::tools {
namespace {

constexpr std::int64_t kMostFirst = 50;  // 1 s

}  // namespace

void apply_timestamp_rules(const SpeechTokens& tokens, std::span<const std::int64_t> text,
                           std::span<float> logits) {
  const auto size = std::ssize(logits);
  const auto first = std::min(tokens.first_timestamp, size);
  const auto forbid = [&](std::int64_t from, std::int64_t to) {
    from = std::clamp<std::int64_t>(from, 0, size);
    to = std::clamp<std::int64_t>(to, from, size);
    std::ranges::fill(
        logits.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)),
        -std::numeric_limits<float>::infinity());
  };
  const auto is_time = [&](std::size_t from_end) {
    return text.size() >= from_end && text[text.size() - from_end] >= first;
  };
  forbid(tokens.no_timestamps, tokens.no_timestamps + 1);
  if (text.empty()) {
    forbid(0, first);
    forbid(first + kMostFirst + 1, size);
  } else if (is_time(1)) {
    // After a pair, or the first time, comes text; after a segment's end comes a begin or the end.
    if (text.size() < 2 || is_time(2))
      forbid(first, size);
    else
      forbid(0, tokens.end);
  }
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] < first) continue;
    const bool ends_segment = i + 1 == text.size() && !(text.size() < 2 || is_time(2));
    forbid(first, ends_segment ? text[i] : text[i] + 1);
    break;
  }
  const auto words = logits.first(static_cast<std::size_t>(first));
  const auto times = logits.subspan(static_cast<std::size_t>(first));
  if (times.empty()) return;
  const double largest = std::ranges::max(times);
  if (!std::isfinite(largest)) return;
  double sum = 0;
  for (const float logit : times) sum += std::exp(logit - largest);
  if (largest + std::log(sum) > std::ranges::max(words)) forbid(0, first);
}

}  // namespace sinter::tools
