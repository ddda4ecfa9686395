// SPDX-License-Identifier: Apache-2.0
// JSON with something in it that was not there: for what reads JSON of files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

namespace sinter::tests {

/// Changes one value somewhere in `json`: a number, a word of the same document, the order or
/// number of a list's elements.
template <class Random>
void change_json(nlohmann::json& json, Random& random) {
  std::vector<nlohmann::json*> all, leaves;
  const auto visit = [&](auto&& self, nlohmann::json& at) -> void {
    all.push_back(&at);
    if (!at.is_structured()) leaves.push_back(&at);
    if (at.is_structured())
      for (auto& each : at) self(self, each);
  };
  visit(visit, json);
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  nlohmann::json& at = *all[below(all.size())];
  const nlohmann::json other = leaves.empty() ? nlohmann::json() : *leaves[below(leaves.size())];
  if (at.is_number_integer() && below(4) != 0) {
    constexpr std::int64_t kNumbers[] = {
        0, 1, -1, 2, 3, 4, 7, 8, 16, 64, 1 << 20, std::int64_t{1} << 40, INT64_MAX, INT64_MIN};
    at = below(3) == 0 ? at.get<std::int64_t>() / 2 : kNumbers[below(std::size(kNumbers))];
  } else if (at.is_array() && !at.empty()) {
    const std::size_t place = below(at.size());
    switch (below(4)) {
      case 0: at.erase(place); break;
      case 1: at.push_back(nlohmann::json(at[place])); break;
      case 2: std::swap(at[place], at[below(at.size())]); break;
      default: at[place] = other;
    }
  } else if (at.is_object() && !at.empty()) {
    const std::string name =
        std::next(at.begin(), static_cast<std::ptrdiff_t>(below(at.size()))).key();
    if (below(2) == 0)
      at.erase(name);
    else
      at[name] = other;
  } else {
    at = other;
  }
}

}  // namespace sinter::tests
