// SPDX-License-Identifier: Apache-2.0
// What a model says of its texts: the tokenizer in a GGUF file's metadata, or
// generation_config.json. Whatever the bytes are, an Error or a tokenizer that encodes.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include <sinter/error.h>

#include "frontend/decoders/files/gguf.h"
#include "tools/generate/generation_config.h"
#include "tools/tokenizer/gguf_tokenizer.h"
#include "tools/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinter;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with('{')) {
      SamplingParameters sampling;
      tools::GenerationConfig::parse(std::string(text)).apply(sampling);
      return 0;
    }
    const auto file = frontend::GgufFile::parse(std::as_bytes(std::span(text)), nullptr, "fuzz");
    const auto tokenizer = tools::Tokenizer::parse(tools::tokenizer_of(*file).dump());
    const auto ids = tokenizer.encode(
        "Hello, gr\xC3\xB6\xC3\x9F"
        "er  <s></s> 3.14\n");
    tokenizer.decode(ids, true);
  } catch (const Error&) {
  }
  return 0;
}
