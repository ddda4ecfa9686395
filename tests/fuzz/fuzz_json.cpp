// SPDX-License-Identifier: Apache-2.0
// Strangers' JSON from bytes: an Error or a value, the same in both orders and by its members.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <sinter/error.h>

#include "tests/fuzz/growth.h"
#include "tests/fuzz/json_mutator.h"
#include "tools/json/read_json.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sinter::tests::watch_growth();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return sinter::tests::mutate_json(data, size, most, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinter;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tests::grows_from_here();
  try {
    const auto value = tools::read_json(text, "it");
    const auto ordered = tools::read_ordered_json(text, "it");
    if (nlohmann::json::parse(ordered.dump()) != value) std::abort();
    if (value.is_object())
      for (const auto& [key, member] : value.items())
        if (nlohmann::json::parse(tools::read_ordered_member(text, key).dump()) != member)
          std::abort();
  } catch (const Error&) {
  }
  return 0;
}
