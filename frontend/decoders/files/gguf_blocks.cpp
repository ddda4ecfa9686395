// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/files/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "frontend/decoders/files/gguf_grid_blocks.h"
#include "ir/parallel.h"

namespace sinter::frontend {
namespace {

using Byte = std::uint8_t;

/// Codes of 4 bits: the low halves of `count` bytes, then their high ones.
void halves(const Byte* from, int count, Byte* to) {
  for (int i = 0; i < count; ++i) {
    to[i] = from[i] & 15;
    to[count + i] = from[i] >> 4;
  }
}

/// Codes of 2 bits: the lowest of 32 bytes, then the next.
void quarters(const Byte* from, Byte* to) {
  for (int shift = 0; shift < 8; shift += 2, to += 32)
    for (int i = 0; i < 32; ++i) to[i] = from[i] >> shift & 3;
}

constexpr int kSmall = 32, kSuper = 256;  // elements of a block

// ---- What a block is: for each type the format of its numbers, its sizes, and functions that
// write the codes of a block as the format stores them, one byte each (codes of 4 bits as nibbles),
// and the scales and offsets of its groups. From ggml-quants.c.

struct Q4_0 {
  static constexpr const char* kFormat = "i4 * f16 group 32";
  static constexpr int kElements = kSmall, kBytes = 18;
  static void codes(const Byte* block, Byte* to) { halves(block + 2, 16, to); }
  static void scales(const Byte* block, float* to) { *to = half_at(block); }
};

/// Codes from 0 on: the zero point is the least of four bits.
struct Q4_1 {
  static constexpr const char* kFormat = "(i4 - i8) * f16 group 32 + f16";
  static constexpr int kElements = kSmall, kBytes = 20;
  static void codes(const Byte* block, Byte* to) { halves(block + 4, 16, to); }
  static void scales(const Byte* block, float* to) { *to = half_at(block); }
  static void offsets(const Byte* block, float* to) { *to = half_at(block + 2); }
};

/// Adds the fifth bits, which lie in front of the nibbles, and `bias`.
void five_bits(const Byte* fifth, int bias, Byte* to) {
  halves(fifth + 4, 16, to);
  for (int i = 0; i < kSmall; ++i)
    to[i] = static_cast<Byte>((to[i] | (fifth[i / 8] >> i % 8 & 1) << 4) + bias);
}

struct Q5_0 {
  static constexpr const char* kFormat = "i8 * f16 group 32";
  static constexpr int kElements = kSmall, kBytes = 22;
  static void codes(const Byte* block, Byte* to) { five_bits(block + 2, -16, to); }
  static void scales(const Byte* block, float* to) { *to = half_at(block); }
};

struct Q5_1 {
  static constexpr const char* kFormat = "i8 * f16 group 32 + f16";
  static constexpr int kElements = kSmall, kBytes = 24;
  static void codes(const Byte* block, Byte* to) { five_bits(block + 4, 0, to); }
  static void scales(const Byte* block, float* to) { *to = half_at(block); }
  static void offsets(const Byte* block, float* to) { *to = half_at(block + 2); }
};

struct Q8_0 {
  static constexpr const char* kFormat = "i8 * f16 group 32";
  static constexpr int kElements = kSmall, kBytes = 34;
  static void codes(const Byte* block, Byte* to) { std::memcpy(to, block + 2, kSmall); }
  static void scales(const Byte* block, float* to) { *to = half_at(block); }
};

// Blocks of 256: products of their scales, of float16 and of 6 bits or less, are exact in float32.

struct Q2_K {
  static constexpr const char* kFormat = "i4 * f32 group 16 + f32";
  static constexpr int kElements = kSuper, kBytes = 84;
  static void codes(const Byte* block, Byte* to) {
    quarters(block + 16, to);
    quarters(block + 48, to + 128);
    for (int i = 0; i < kSuper; ++i) to[i] += 8;
  }
  static void scales(const Byte* block, float* to) {
    const float scale = half_at(block + 80);
    for (int g = 0; g < 16; ++g) to[g] = scale * static_cast<float>(block[g] & 15);
  }
  static void offsets(const Byte* block, float* to) {
    const float scale = half_at(block + 82);
    for (int g = 0; g < 16; ++g) to[g] = -(scale * static_cast<float>(block[g] >> 4));
  }
};

struct Q3_K {
  static constexpr const char* kFormat = "i4 * f32 group 16";
  static constexpr int kElements = kSuper, kBytes = 110;
  static void codes(const Byte* block, Byte* to) {
    quarters(block + 32, to);
    quarters(block + 64, to + 128);
    // The third bit means that nothing is subtracted: codes are -4 to 3.
    for (int i = 0; i < kSuper; ++i)
      to[i] = static_cast<Byte>(to[i] + 4 + (block[i % 32] >> i / 32 & 1) * 4);
  }
  static void scales(const Byte* block, float* to) {
    const Byte* const packed = block + 96;
    const float scale = half_at(block + 108);
    for (int g = 0; g < 16; ++g) {
      const int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
      const int high = packed[8 + g % 4] >> (g / 4 * 2) & 3;
      to[g] = scale * static_cast<float>((low | high << 4) - 32);
    }
  }
};

/// Eight scales and minima of 6 bits in 12 bytes, each times its float16 in front of them.
void six_bit_scales(const Byte* block, float* to) {
  const Byte* const packed = block + 4;
  const float scale = half_at(block);
  for (int g = 0; g < 8; ++g)
    to[g] = scale * static_cast<float>(g < 4 ? packed[g] & 63
                                             : (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4);
}

void six_bit_offsets(const Byte* block, float* to) {
  const Byte* const packed = block + 4;
  const float scale = half_at(block + 2);
  for (int g = 0; g < 8; ++g)
    to[g] = -(scale * static_cast<float>(g < 4 ? packed[g + 4] & 63
                                               : packed[g + 4] >> 4 | packed[g] >> 6 << 4));
}

struct Q4_K {
  static constexpr const char* kFormat = "(i4 - i8) * f32 group 32 + f32";
  static constexpr int kElements = kSuper, kBytes = 144;
  static void codes(const Byte* block, Byte* to) {
    for (int i = 0; i < 4; ++i) halves(block + 16 + i * 32, 32, to + i * 64);
  }
  static constexpr auto scales = six_bit_scales, offsets = six_bit_offsets;
};

struct Q5_K {
  static constexpr const char* kFormat = "i8 * f32 group 32 + f32";
  static constexpr int kElements = kSuper, kBytes = 176;
  static void codes(const Byte* block, Byte* to) {
    for (int i = 0; i < 4; ++i) halves(block + 48 + i * 32, 32, to + i * 64);
    for (int i = 0; i < kSuper; ++i)
      to[i] = static_cast<Byte>(to[i] | (block[16 + i % 32] >> i / 32 & 1) << 4);
  }
  static constexpr auto scales = six_bit_scales, offsets = six_bit_offsets;
};

struct Q6_K {
  static constexpr const char* kFormat = "i8 * f32 group 16";
  static constexpr int kElements = kSuper, kBytes = 210;
  static void codes(const Byte* block, Byte* to) {
    Byte high[kSuper];
    for (int i = 0; i < 2; ++i) {
      halves(block + i * 64, 64, to + i * 128);
      quarters(block + 128 + i * 32, high + i * 128);
    }
    for (int i = 0; i < kSuper; ++i) to[i] = static_cast<Byte>((to[i] | high[i] << 4) - 32);
  }
  static void scales(const Byte* block, float* to) {
    const float scale = half_at(block + 208);
    for (int g = 0; g < 16; ++g)
      to[g] = scale * static_cast<float>(static_cast<std::int8_t>(block[192 + g]));
  }
};

/// Numbers of -1, 0 and 1, five in a byte as digits of base 3.
struct TQ1_0 {
  static constexpr const char* kFormat = "i4 * f16 group 256";
  static constexpr int kElements = kSuper, kBytes = 54;
  static void codes(const Byte* block, Byte* to) {
    struct Run {
      int first, bytes, digits;
    };
    for (const Run& run : {Run{0, 32, 5}, Run{32, 16, 5}, Run{48, 4, 4}})
      for (int digit = 0, power = 1; digit < run.digits; ++digit, power *= 3)
        for (int i = 0; i < run.bytes; ++i)
          *to++ = static_cast<Byte>((block[run.first + i] * power & 255) * 3 / 256 + 7);
  }
  static void scales(const Byte* block, float* to) { *to = half_at(block + 52); }
};

struct TQ2_0 {
  static constexpr const char* kFormat = "i4 * f16 group 256";
  static constexpr int kElements = kSuper, kBytes = 66;
  static void codes(const Byte* block, Byte* to) {
    quarters(block, to);
    quarters(block + 32, to + 128);
    for (int i = 0; i < kSuper; ++i) to[i] += 7;
  }
  static void scales(const Byte* block, float* to) { *to = half_at(block + 64); }
};

struct IQ4_NL {
  static constexpr const char* kFormat = "iq4nl * f16 group 32";
  static constexpr int kElements = kSmall, kBytes = 18;
  static constexpr auto codes = Q4_0::codes;
  static constexpr auto scales = Q4_0::scales;
};

struct IQ4_XS {
  static constexpr const char* kFormat = "iq4nl * f32 group 32";
  static constexpr int kElements = kSuper, kBytes = 136;
  static void codes(const Byte* block, Byte* to) {
    for (int i = 0; i < 8; ++i) halves(block + 8 + i * 16, 16, to + i * 32);
  }
  static void scales(const Byte* block, float* to) {
    const float scale = half_at(block);
    for (int g = 0; g < 8; ++g) {
      const int low = block[4 + g / 2] >> g % 2 * 4 & 15, high = block[2 + g / 4] >> g % 4 * 2 & 3;
      to[g] = scale * static_cast<float>((low | high << 4) - 32);
    }
  }
};

struct MXFP4 {
  static constexpr const char* kFormat = "f4e2m1 * e8m0 group 32";
  static constexpr int kElements = kSmall, kBytes = 17;
  static void codes(const Byte* block, Byte* to) { halves(block + 1, 16, to); }
  static void scales(const Byte* block, float* to) { *to = block[0]; }  // the code
};

/// Scales are unsigned e4m3, whose bytes are those of the signed type. 0x7f is 0 here; halves of
/// ggml's scales times its doubled numbers are these.
struct NVFP4 {
  static constexpr const char* kFormat = "f4e2m1 * f8e4m3fn group 16";
  static constexpr int kElements = 64, kBytes = 36;
  static void codes(const Byte* block, Byte* to) {
    for (int g = 0; g < 4; ++g) halves(block + 4 + g * 8, 8, to + g * 16);
  }
  static void scales(const Byte* block, float* to) {
    for (int g = 0; g < 4; ++g) {
      const auto code = static_cast<std::byte>(block[g] & 127);
      to[g] = code == std::byte{127}
                  ? 0
                  : static_cast<float>(ir::load_as_double(DType::kFloat8E4M3FN, &code));
    }
  }
};

/// Signs.
struct Q1_0 {
  static constexpr const char* kFormat = "i4 * f16 group 128";
  static constexpr int kElements = 128, kBytes = 18;
  static void codes(const Byte* block, Byte* to) {
    for (int i = 0; i < kElements; ++i) to[i] = (block[2 + i / 8] >> i % 8 & 1) != 0 ? 9 : 7;
  }
  static void scales(const Byte* block, float* to) { *to = half_at(block); }
};

// ---- Tensors of them

constexpr std::size_t kBlocksAtOnce = 4096;
constexpr std::byte kLeast{0xf8};  // -8: the least code of 4 bits

/// `size` bytes for each block, written by `write(block, to)` when they are read.
template <typename Block, typename Write>
ir::Tensor tensor_of(const StoredBytes& stored, DType type, ir::Ints shape, std::size_t size,
                     const Write& write) {
  const std::size_t blocks = stored.bytes.size() / Block::kBytes;
  return ir::Tensor(type, std::move(shape), ir::Buffer::derived(blocks * size, [=] {
                      std::vector<std::byte> bytes(blocks * size);
                      const auto* const from = reinterpret_cast<const Byte*>(stored.bytes.data());
                      ir::for_each_range(
                          blocks, kBlocksAtOnce, [&](std::size_t block, std::size_t end) {
                            for (; block < end; ++block)
                              write(from + block * Block::kBytes, bytes.data() + block * size);
                          });
                      if (stored.forget) stored.forget();
                      return bytes;
                    }));
}

template <typename Block>
std::variant<ir::Tensor, ir::ScaledTensor> read_blocks(StoredBytes stored, const ir::Ints& shape) {
  const ir::ScaleFormat format = ir::ScaleFormat::parse(Block::kFormat);
  const std::int64_t k = shape.empty() ? 1 : shape.back();
  const auto blocks = static_cast<std::int64_t>(stored.bytes.size() / Block::kBytes);
  const std::int64_t n = blocks / (k / Block::kElements);
  const ir::Ints grouped{n, format.groups(k)};
  const bool is_packed = format.codes->bits == 4;
  const auto groups = static_cast<std::size_t>(Block::kElements / format.depth);

  const auto numbers = [&](DType type, void (*read)(const Byte*, float*)) {
    return tensor_of<Block>(stored, type, grouped, groups * size_of(type),
                            [type, read, groups](const Byte* block, std::byte* to) {
                              float own[kSuper / 16];
                              read(block, own);
                              for (std::size_t g = 0; g < groups; ++g, to += size_of(type))
                                if (type == DType::kFloat32)
                                  std::memcpy(to, own + g, sizeof(float));
                                else if (is_float(type))
                                  ir::store_double(type, to, own[g]);
                                else
                                  ir::store_int(type, to, static_cast<std::int64_t>(own[g]));
                            });
  };

  ir::ScaledTensor result;
  result.format = format;
  result.k = k;
  result.values =
      tensor_of<Block>(stored, format.codes->stored, {n, format.pitch(k)},
                       static_cast<std::size_t>(Block::kElements) / (is_packed ? 2 : 1),
                       [is_packed](const Byte* block, std::byte* to) {
                         Byte codes[Block::kElements];
                         Block::codes(block, codes);
                         if (!is_packed) {
                           std::memcpy(to, codes, sizeof codes);
                           return;
                         }
                         for (int i = 0; i < Block::kElements / 2; ++i)
                           to[i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
                       });
  result.scales = numbers(format.scale, Block::scales);
  if constexpr (requires { Block::offsets; })
    result.offsets = numbers(*format.offset, Block::offsets);
  if (format.zero) {
    const auto size = static_cast<std::size_t>(n * format.groups(k));
    result.zero_points = ir::Tensor(DType::kInt8, grouped, ir::Buffer::derived(size, [size] {
                                      return std::vector<std::byte>(size, kLeast);
                                    }));
  }
  return result;
}

template <DType kType>
std::variant<ir::Tensor, ir::ScaledTensor> read_plain(StoredBytes stored, const ir::Ints& shape) {
  const bool is_aligned =
      reinterpret_cast<std::uintptr_t>(stored.bytes.data()) % size_of(kType) == 0;
  if (is_aligned)
    return ir::Tensor(kType, shape,
                      ir::Buffer::borrow(stored.bytes, stored.owner, std::move(stored.forget)));
  return ir::Tensor(kType, shape, ir::Buffer::derived(stored.bytes.size(), [stored] {
                      return std::vector<std::byte>(stored.bytes.begin(), stored.bytes.end());
                    }));
}

template <typename Block>
constexpr BlockType blocks_of(std::uint32_t id, std::string_view name) {
  return {id, name, Block::kElements, Block::kBytes, read_blocks<Block>};
}
template <DType kType>
constexpr BlockType plain(std::uint32_t id, std::string_view name) {
  return {id, name, 1, static_cast<int>(size_of(kType)), read_plain<kType>};
}
constexpr BlockType unread(std::uint32_t id, std::string_view name) { return {id, name}; }

/// ggml's numbers. To add one: a struct above, a row here, a line in the tests.
constexpr BlockType kTypes[] = {
    plain<DType::kFloat32>(0, "F32"),
    plain<DType::kFloat16>(1, "F16"),
    plain<DType::kBFloat16>(30, "BF16"),
    plain<DType::kFloat64>(28, "F64"),
    plain<DType::kInt8>(24, "I8"),
    plain<DType::kInt16>(25, "I16"),
    plain<DType::kInt32>(26, "I32"),
    plain<DType::kInt64>(27, "I64"),
    blocks_of<Q4_0>(2, "Q4_0"),
    blocks_of<Q4_1>(3, "Q4_1"),
    blocks_of<Q5_0>(6, "Q5_0"),
    blocks_of<Q5_1>(7, "Q5_1"),
    blocks_of<Q8_0>(8, "Q8_0"),
    blocks_of<Q2_K>(10, "Q2_K"),
    blocks_of<Q3_K>(11, "Q3_K"),
    blocks_of<Q4_K>(12, "Q4_K"),
    blocks_of<Q5_K>(13, "Q5_K"),
    blocks_of<Q6_K>(14, "Q6_K"),
    blocks_of<IQ4_NL>(20, "IQ4_NL"),
    blocks_of<IQ4_XS>(23, "IQ4_XS"),
    blocks_of<TQ1_0>(34, "TQ1_0"),
    blocks_of<TQ2_0>(35, "TQ2_0"),
    blocks_of<MXFP4>(39, "MXFP4"),
    blocks_of<IQ2_XXS>(16, "IQ2_XXS"),
    blocks_of<IQ2_XS>(17, "IQ2_XS"),
    blocks_of<IQ3_XXS>(18, "IQ3_XXS"),
    blocks_of<IQ1_S>(19, "IQ1_S"),
    blocks_of<IQ3_S>(21, "IQ3_S"),
    blocks_of<IQ2_S>(22, "IQ2_S"),
    blocks_of<IQ1_M>(29, "IQ1_M"),
    blocks_of<NVFP4>(40, "NVFP4"),
    blocks_of<Q1_0>(41, "Q1_0"),
    unread(9, "Q8_1"),
    unread(15, "Q8_K"),
};

}  // namespace

const BlockType* find_block_type(std::uint32_t id) {
  const auto* const at = std::ranges::find(kTypes, id, &BlockType::id);
  return at == std::end(kTypes) ? nullptr : at;
}

std::string block_type_names() {
  std::string names;
  for (const BlockType& type : kTypes)
    if (type.read != nullptr) names.append(names.empty() ? "" : ", ").append(type.name);
  return names;
}

}  // namespace sinter::frontend
