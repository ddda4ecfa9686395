// SPDX-License-Identifier: Apache-2.0
// ggml's types of blocks whose codes are indices of codebooks: what gguf_blocks.cpp asks of a type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/tensor.h"

namespace sinter::frontend {

inline float half_at(const std::uint8_t* at) {
  return static_cast<float>(
      ir::load_as_double(DType::kFloat16, reinterpret_cast<const std::byte*>(at)));
}

/// Blocks of 256 elements in `kBytes`, as int8 times a float32 scale for each `kDepth`.
template <int kSize, int kDepth>
struct GridBlock {
  static constexpr const char* kFormat = kDepth == 16 ? "i8 * f32 group 16" : "i8 * f32 group 32";
  static constexpr int kElements = 256, kBytes = kSize;
};

struct IQ2_XXS : GridBlock<66, 32> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};
struct IQ2_XS : GridBlock<74, 16> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};
struct IQ2_S : GridBlock<82, 16> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};
struct IQ3_XXS : GridBlock<98, 32> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};
struct IQ3_S : GridBlock<110, 32> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};
struct IQ1_S : GridBlock<50, 32> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};
struct IQ1_M : GridBlock<56, 16> {
  static void codes(const std::uint8_t* block, std::uint8_t* to);
  static void scales(const std::uint8_t* block, float* to);
};

}  // namespace sinter::frontend
