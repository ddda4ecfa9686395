// SPDX-License-Identifier: Apache-2.0
// MMAs of a warpgroup with float32 operands in shared memory, of which tensor cores read TF32's
// bits (wgmma, sm_90a only); both operands are K-major.
#pragma once

#include "mma.cuh"
#include "warpgroup.cuh"

#ifdef SINTER_WARPGROUPS

/// Offset of element (row, column) in a tile of 4-byte elements: swizzled_place() with blocks of 32
/// columns.
template <int kRows>
SINTER_DEVICE int swizzled_word(int row, int column) {
  return column / 32 * (kRows * 32) + row * 32 + (column / 4 % 8 ^ row % 8) * 4 + column % 4;
}

#ifdef __CUDACC__
#define SINTER_SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define SINTER_SUMS_4(j) SINTER_SUMS(j), SINTER_SUMS(j + 1), SINTER_SUMS(j + 2), SINTER_SUMS(j + 3)
#define SINTER_SUMS_8(j) SINTER_SUMS_4(j), SINTER_SUMS_4(j + 4)
#define SINTER_COMMA ,
#define SINTER_WGMMA(n, registers, sums, at_a, at_b, keep)                                        \
  SINTER_DEVICE void wgmma_instruction(float, float, float(&d)[n / 8][4], u64 a, u64 b,           \
                                       bool add) {                                                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep                                         \
                 ", 0;\n"                                                                         \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" registers "}, " at_a \
                 ", " at_b ", p, 1, 1;\n}"                                                        \
                 : sums                                                                           \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                   \
  }
SINTER_WGMMA(32, SINTER_REGISTERS_16, SINTER_SUMS_4(0), "%16", "%17", "%18")
SINTER_WGMMA(64, SINTER_REGISTERS_32, SINTER_SUMS_8(0), "%32", "%33", "%34")
SINTER_WGMMA(96, SINTER_REGISTERS_48, SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_4(8), "%48", "%49",
             "%50")
SINTER_WGMMA(112, SINTER_REGISTERS_56,
             SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_4(8) SINTER_COMMA SINTER_SUMS(12)
                 SINTER_COMMA SINTER_SUMS(13),
             "%56", "%57", "%58")
SINTER_WGMMA(128, SINTER_REGISTERS_64, SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_8(8), "%64", "%65",
             "%66")
SINTER_WGMMA(160, SINTER_REGISTERS_80,
             SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_8(8) SINTER_COMMA SINTER_SUMS_4(16), "%80",
             "%81", "%82")
SINTER_WGMMA(192, SINTER_REGISTERS_96,
             SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_8(8) SINTER_COMMA SINTER_SUMS_8(16), "%96",
             "%97", "%98")
SINTER_WGMMA(224, SINTER_REGISTERS_112,
             SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_8(8) SINTER_COMMA SINTER_SUMS_8(16)
                 SINTER_COMMA SINTER_SUMS_4(24),
             "%112", "%113", "%114")
SINTER_WGMMA(256, SINTER_REGISTERS_128,
             SINTER_SUMS_8(0) SINTER_COMMA SINTER_SUMS_8(8) SINTER_COMMA SINTER_SUMS_8(16)
                 SINTER_COMMA SINTER_SUMS_8(24),
             "%128", "%129", "%130")
#undef SINTER_WGMMA
#undef SINTER_COMMA
#undef SINTER_SUMS_8
#undef SINTER_SUMS_4
#undef SINTER_SUMS
#endif

/// d as in wgmma(). Element (row, k) of a is element (row, first + k) of a tile that is one block
/// of columns wide. Element (k, n) of b is element (n, first + k) of a tile of kTileRows rows.
template <>
struct WarpgroupProduct<float, float> {
  template <int kTileRows, bool kRowsAreK, int kTiles>
  SINTER_DEVICE static void start(float (&d)[kTiles][4], const float* a, const float* b, int first,
                                  bool add) {
    static_assert(!kRowsAreK && kTileRows == kTiles * 8, "k is contiguous in both operands");
#ifdef __CUDACC__
    const u32 further = static_cast<u32>(first / 4);
    wgmma_instruction(0.0f, 0.0f, d, whole_descriptor(describe_tile(a, 0) + further),
                      whole_descriptor(describe_tile(b, 0) + further), add);
#else
    const auto truncated = [](float x) {
      u32 bits;
      memcpy(&bits, &x, sizeof(bits));
      bits &= ~0x1fffu;
      memcpy(&x, &bits, sizeof(x));
      return x;
    };
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
    float rows[2][8];
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 8; ++k)
        rows[i][k] = truncated(a[swizzled_word<64>(row + i * 8, first + k)]);
    emulator::add_products(d, rows, add, [&](int j, int i, int k) {
      return truncated(b[swizzled_word<kTiles * 8>(j * 8 + lane % 4 * 2 + i, first + k)]);
    });
#endif
  }
};

#endif  // SINTER_WARPGROUPS
