// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/files/gguf_grid_blocks.h"

#include <array>
#include <bit>
#include <cstring>

namespace sinter::frontend {
namespace {

#include "frontend/decoders/files/gguf_grids.inc"

using Byte = std::uint8_t;

constexpr unsigned digit(char c) {
  return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
}

/// The entries of a codebook.
template <std::size_t kSize>
constexpr auto entries(const char (&hex)[kSize]) {
  std::array<std::uint16_t, kSize / 4> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char* const at = hex + i * 4;
    all[i] = static_cast<std::uint16_t>(digit(at[0]) << 4 | digit(at[1]) | digit(at[2]) << 12 |
                                        digit(at[3]) << 8);
  }
  return all;
}

constexpr auto kGrid2Xxs = entries(kIq2Xxs);
constexpr auto kGrid2Xs = entries(kIq2Xs);
constexpr auto kGrid2S = entries(kIq2S);
constexpr auto kGrid3Xxs = entries(kIq3Xxs);
constexpr auto kGrid3S = entries(kIq3S);
constexpr auto kGrid1 = entries(kIq1S);

// What the numbers of an entry mean.
constexpr std::int8_t kTwoBits[4] = {8, 25, 43, 0};
constexpr std::int8_t kThreeBitsXxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::int8_t kThreeBits[8] = {1, 3, 5, 7, 9, 11, 13, 15};

template <typename T>
T load(const Byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Eight numbers, negative where a bit of `signs` is 1.
void eight(std::uint16_t entry, unsigned signs, Byte* to) {
  for (unsigned i = 0; i < 8; ++i) {
    const std::int8_t number = kTwoBits[entry >> 2 * i & 3];
    to[i] = static_cast<Byte>((signs >> i & 1) != 0 ? -number : number);
  }
}

void four(std::uint16_t entry, const std::int8_t* numbers, unsigned signs, Byte* to) {
  for (unsigned i = 0; i < 4; ++i) {
    const std::int8_t number = numbers[entry >> 4 * i & 7];
    to[i] = static_cast<Byte>((signs >> i & 1) != 0 ? -number : number);
  }
}

/// Eight signs in 7 bits: their number is even.
unsigned signs_of(unsigned seven) {
  seven &= 127;
  return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7;
}

/// 8 * (number + delta), with a delta of 1/8 or -1/8.
void eight_with_delta(std::uint16_t entry, bool is_negative, Byte* to) {
  for (unsigned i = 0; i < 8; ++i)
    to[i] = static_cast<Byte>(8 * ((entry >> 2 * i & 3) - 1) + (is_negative ? -1 : 1));
}

/// `count` scales of 4 bits.
template <typename Scale>
void nibbles(const Byte* packed, int count, const Scale& scale, float* to) {
  for (int g = 0; g < count; ++g)
    to[g] = scale(static_cast<float>(packed[g / 2] >> g % 2 * 4 & 15));
}

constexpr int kGroups = 8;  // of 32 elements

}  // namespace

// All products of scales are exact in float32: float16 times at most 5 bits.

void IQ2_XXS::codes(const Byte* block, Byte* to) {
  for (int g = 0; g < kGroups; ++g) {
    const Byte* const at = block + 2 + g * 8;
    const auto signs = load<std::uint32_t>(at + 4);
    for (int i = 0; i < 4; ++i, to += 8) eight(kGrid2Xxs[at[i]], signs_of(signs >> 7 * i), to);
  }
}

void IQ2_XXS::scales(const Byte* block, float* to) {
  for (int g = 0; g < kGroups; ++g)
    to[g] = half_at(block) *
            (0.5F + static_cast<float>(load<std::uint32_t>(block + 6 + g * 8) >> 28)) * 0.25F;
}

void IQ2_XS::codes(const Byte* block, Byte* to) {
  for (int i = 0; i < 32; ++i, to += 8) {
    const auto code = load<std::uint16_t>(block + 2 + i * 2);
    eight(kGrid2Xs[code & 511], signs_of(code >> 9), to);
  }
}

void IQ2_XS::scales(const Byte* block, float* to) {
  const float scale = half_at(block);
  nibbles(
      block + 66, 16, [&](float own) { return scale * (0.5F + own) * 0.25F; }, to);
}

void IQ2_S::codes(const Byte* block, Byte* to) {
  for (int i = 0; i < 32; ++i, to += 8) {
    const int high = block[66 + i / 4] >> i % 4 * 2 & 3;
    eight(kGrid2S[static_cast<std::size_t>(block[2 + i] | high << 8)], block[34 + i], to);
  }
}

void IQ2_S::scales(const Byte* block, float* to) {
  const float scale = half_at(block);
  nibbles(
      block + 74, 16, [&](float own) { return scale * (0.5F + own) * 0.25F; }, to);
}

void IQ3_XXS::codes(const Byte* block, Byte* to) {
  for (int i = 0; i < 64; ++i, to += 4) {
    const auto signs = load<std::uint32_t>(block + 66 + i / 8 * 4);
    four(kGrid3Xxs[block[2 + i]], kThreeBitsXxs, signs_of(signs >> i / 2 % 4 * 7) >> i % 2 * 4, to);
  }
}

void IQ3_XXS::scales(const Byte* block, float* to) {
  for (int g = 0; g < kGroups; ++g)
    to[g] = half_at(block) *
            (0.5F + static_cast<float>(load<std::uint32_t>(block + 66 + g * 4) >> 28)) * 0.5F;
}

void IQ3_S::codes(const Byte* block, Byte* to) {
  for (int i = 0; i < 64; ++i, to += 4) {
    const int high = block[66 + i / 8] >> i % 8 & 1;
    four(kGrid3S[static_cast<std::size_t>(block[2 + i] | high << 8)], kThreeBits,
         static_cast<unsigned>(block[74 + i / 2] >> i % 2 * 4), to);
  }
}

void IQ3_S::scales(const Byte* block, float* to) {
  const float scale = half_at(block);
  nibbles(
      block + 106, kGroups, [&](float own) { return scale * (1 + 2 * own); }, to);
}

void IQ1_S::codes(const Byte* block, Byte* to) {
  for (int i = 0; i < 32; ++i, to += 8) {
    const auto high = load<std::uint16_t>(block + 34 + i / 4 * 2);
    eight_with_delta(kGrid1[static_cast<std::size_t>(block[2 + i] | (high >> i % 4 * 3 & 7) << 8)],
                     (high & 0x8000) != 0, to);
  }
}

void IQ1_S::scales(const Byte* block, float* to) {
  for (int g = 0; g < kGroups; ++g) {
    const int own = load<std::uint16_t>(block + 34 + g * 2) >> 12 & 7;
    to[g] = half_at(block) * static_cast<float>(2 * own + 1) * 0.125F;
  }
}

void IQ1_M::codes(const Byte* block, Byte* to) {
  for (int i = 0; i < 32; ++i, to += 8) {
    const int high = block[32 + i / 2] >> i % 2 * 4;
    eight_with_delta(kGrid1[static_cast<std::size_t>(block[i] | (high & 7) << 8)], (high & 8) != 0,
                     to);
  }
}

/// The float16 lies in the highest bits of four words, the scales in the others.
void IQ1_M::scales(const Byte* block, float* to) {
  std::uint16_t words[4];
  std::memcpy(words, block + 48, sizeof words);
  unsigned half = 0;
  for (unsigned i = 0; i < 4; ++i) half |= static_cast<unsigned>(words[i] >> 12) << 4 * i;
  const Byte bytes[2] = {static_cast<Byte>(half & 255), static_cast<Byte>(half >> 8)};
  for (int g = 0; g < 16; ++g)
    to[g] = half_at(bytes) * static_cast<float>(2 * (words[g / 4] >> g % 4 * 3 & 7) + 1) * 0.125F;
}

}  // namespace sinter::frontend
