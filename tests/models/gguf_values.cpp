// SPDX-License-Identifier: Apache-2.0
// gguf_values FILE: the numbers of all tensors, float32, in the order of their names; check_gguf.py
// compares them with the gguf package's.
#include <cstdio>

#include <sinter/error.h>

#include "frontend/decoders/files/gguf.h"

int main(int count, char** arguments) {
  using namespace sinter;
  if (count != 2) return 2;
  try {
    const auto file = frontend::GgufFile::open(arguments[1]);
    for (const std::string& name : file->names()) {
      const frontend::StoredTensor stored = file->read(name);
      const auto* plain = std::get_if<ir::Tensor>(&stored.value);
      const ir::Tensor numbers =
          plain != nullptr
              ? ir::Tensor::from_doubles(DType::kFloat32, plain->shape(), plain->to_doubles())
              : ir::dequantized(std::get<ir::ScaledTensor>(stored.value), DType::kFloat32);
      std::fwrite(numbers.bytes().data(), 1, numbers.byte_count(), stdout);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
