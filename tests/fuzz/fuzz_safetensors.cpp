// SPDX-License-Identifier: Apache-2.0
// Safetensors from bytes: whatever they are, an Error or tensors that can be read.
#include <cstdint>

#include <sinter/error.h>

#include "frontend/decoders/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& [name, tensor] : sinter::frontend::parse_safetensors(bytes, nullptr, "fuzz"))
      (void)tensor.hash();
  } catch (const sinter::Error&) {
  }
  return 0;
}
