// SPDX-License-Identifier: Apache-2.0
// Inputs that are JSON are changed as JSON, so that most are parsed.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "tests/support/changed_json.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace sinter::tests {

/// Keeps the first `head` bytes of the input, which choose what is done with the rest.
inline std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most,
                               unsigned seed, std::size_t head = 0) {
  std::mt19937 random(seed);
  if (size <= head || random() % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  const auto* text = reinterpret_cast<const char*>(data) + head;
  auto json = nlohmann::json::parse(text, text + (size - head), nullptr, false);
  if (json.is_discarded()) return LLVMFuzzerMutate(data, size, most);
  change_json(json, random);
  if (random() % 4 == 0) {
    // A text in it, too: patterns, templates, arguments of tools.
    std::vector<nlohmann::json*> texts;
    const auto visit = [&](auto&& self, nlohmann::json& at) -> void {
      if (at.is_string()) texts.push_back(&at);
      if (at.is_structured())
        for (auto& each : at) self(self, each);
    };
    visit(visit, json);
    if (!texts.empty()) {
      auto changed = texts[random() % texts.size()]->get<std::string>();
      const std::size_t length = changed.size();
      changed.resize(length + 64);
      changed.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(changed.data()), length,
                                      changed.size()));
      *texts[random() % texts.size()] = changed;
    }
  }
  const std::string changed = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (changed.size() + head > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data + head, changed.data(), changed.size());
  return head + changed.size();
}

}  // namespace sinter::tests
