// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/output_text.h"

#include <algorithm>
#include <utility>

namespace sinter::engine {

std::string OutputText::add(std::string_view bytes) {
  return add_characters(characters_.add(bytes));
}

std::string OutputText::add_characters(std::string_view text) {
  held_ += text;
  return release(false);
}

std::string OutputText::finish() {
  if (has_stopped_) return {};
  held_ += characters_.finish();
  return release(true);
}

std::string OutputText::release(bool all) {
  if (!looks_) return std::exchange(held_, {});
  // Text before held_ cannot be part of a stop string. Finds the first offset that starts a stop
  // string or a prefix of one:
  for (std::size_t at = 0; at < held_.size(); ++at) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const auto begins = [&](const std::string& stop) { return rest.starts_with(stop); };
    const auto may_begin = [&](const std::string& stop) { return stop.starts_with(rest); };
    if (std::ranges::any_of(stops_, begins)) {
      has_stopped_ = true;
      return std::exchange(held_, {}).substr(0, at);
    }
    if (!all && std::ranges::any_of(stops_, may_begin)) {
      std::string text = held_.substr(0, at);
      held_.erase(0, at);
      return text;
    }
  }
  return std::exchange(held_, {});
}

}  // namespace sinter::engine
