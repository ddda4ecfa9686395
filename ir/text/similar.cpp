// SPDX-License-Identifier: Apache-2.0
#include "ir/text/similar.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ir/text/shown.h"

namespace sinter::ir {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

std::string nearest(std::string_view word, std::span<const std::string> names) {
  constexpr std::size_t kLongest = 64;  // limit, since the cost is quadratic and files may be
                                        // hostile
  if (word.size() > kLongest) return {};
  std::size_t best = word.size() / 2 + 1;
  std::string found;
  for (const std::string& each : names) {
    if (each.size() > 2 * kLongest) continue;
    if (const std::size_t d = edit_distance(word, each); d < best) {
      best = d;
      found = each;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::string near = nearest(word, names);
  return near.empty() ? "" : fmt::format(": did you mean '{}'?", shown(near));
}

}  // namespace sinter::ir
