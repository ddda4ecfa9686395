// SPDX-License-Identifier: Apache-2.0
// GGUF from bytes: whatever they are, an Error or metadata and tensors that can be read.
#include <cstdint>
#include <memory>

#include <sinter/error.h>

#include "frontend/decoders/files/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinter;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto file = frontend::GgufFile::parse(bytes, nullptr, "fuzz");
    for (const std::string_view key : file->keys()) (void)file->find(key);
    for (const std::string& name : file->names()) {
      const frontend::StoredTensor stored = file->read(name);
      if (const auto* plain = std::get_if<ir::Tensor>(&stored.value))
        (void)plain->hash();
      else
        (void)ir::dequantized(std::get<ir::ScaledTensor>(stored.value), DType::kFloat32).hash();
    }
  } catch (const Error&) {
  }
  return 0;
}
