// SPDX-License-Identifier: Apache-2.0
// tokenizer.json from bytes: an Error, or a tokenizer whose ids are encoded and decoded.
#include <cstdint>
#include <string>
#include <string_view>

#include <sinter/error.h>

#include "tests/fuzz/growth.h"
#include "tests/fuzz/json_mutator.h"
#include "tools/tokenizer/tokenizer.h"

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
  tests::grows_from_here();
  try {
    const auto tokenizer = tools::Tokenizer::parse({reinterpret_cast<const char*>(data), size});
    for (const std::string_view text : {"", "Hello, world! 3.14\n",
                                        "\xC3\x9C"
                                        "ber gr\xC3\xB6\xC3\x9F"
                                        "er  <s></s>\t\xF0\x9F\x98\x80",
                                        "\xFF\xC3(", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
      const auto ids = tokenizer.encode(text);
      tokenizer.decode(ids, true);
      tokenizer.decode(ids, false);
    }
  } catch (const Error&) {
  }
  return 0;
}
