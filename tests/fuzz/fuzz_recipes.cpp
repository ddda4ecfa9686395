// SPDX-License-Identifier: Apache-2.0
// Recipes of plans from bytes: whatever they say, an Error or weights. Inputs are changed as JSON,
// so that most are parsed.
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include <sinter/error.h>

#include "tests/support/changed_json.h"
#include "tests/support/try_recipes.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  const auto* text = reinterpret_cast<const char*>(data);
  nlohmann::json json = nlohmann::json::parse(text, text + size, nullptr, false);
  if (json.is_discarded() || random() % 64 == 0) return LLVMFuzzerMutate(data, size, most);
  sinter::tests::change_json(json, random);
  const std::string changed = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    sinter::tests::try_recipes({reinterpret_cast<const char*>(data), size});
  } catch (const sinter::Error&) {
  }
  return 0;
}
