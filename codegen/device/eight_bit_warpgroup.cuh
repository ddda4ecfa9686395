// SPDX-License-Identifier: Apache-2.0
// MMAs of a warpgroup with 8-bit operands in shared memory (wgmma, sm_90a only); both operands are
// K-major.
#pragma once

#include "eight_bit_mma.cuh"
#include "warpgroup.cuh"

#ifdef SINTER_WARPGROUPS

/// Offset of element (row, column) in a tile of 8-bit elements, in elements: swizzled_place() with
/// blocks of 128 columns.
template <int kRows>
SINTER_DEVICE int swizzled_byte(int row, int column) {
  return column / 128 * (kRows * 128) + row * 128 + (column / 16 % 8 ^ row % 8) * 16 + column % 16;
}

#ifdef __CUDACC__
#define SINTER_SUMS(letter, j) \
  "+" letter(d[j][0]), "+" letter(d[j][1]), "+" letter(d[j][2]), "+" letter(d[j][3])
#define SINTER_SUMS_4(letter, j)                                                  \
  SINTER_SUMS(letter, j), SINTER_SUMS(letter, j + 1), SINTER_SUMS(letter, j + 2), \
      SINTER_SUMS(letter, j + 3)
#define SINTER_SUMS_8(letter, j) SINTER_SUMS_4(letter, j), SINTER_SUMS_4(letter, j + 4)
#define SINTER_COMMA ,
#define SINTER_WGMMA(A, B, Sum, types, scales, n, registers, sums, at_a, at_b, keep)           \
  SINTER_DEVICE void wgmma_instruction(A, B, Sum(&d)[n / 8][4], u64 a, u64 b, bool add) {      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep                                      \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k32." types " {" registers "}, " at_a \
                 ", " at_b ", p" scales ";\n}"                                                 \
                 : sums                                                                        \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                \
  }
#define SINTER_WGMMA_ALL(A, B, Sum, letter, types, scales)                                         \
  SINTER_WGMMA(A, B, Sum, types, scales, 32, SINTER_REGISTERS_16, SINTER_SUMS_4(letter, 0), "%16", \
               "%17", "%18")                                                                       \
  SINTER_WGMMA(A, B, Sum, types, scales, 64, SINTER_REGISTERS_32, SINTER_SUMS_8(letter, 0), "%32", \
               "%33", "%34")                                                                       \
  SINTER_WGMMA(A, B, Sum, types, scales, 96, SINTER_REGISTERS_48,                                  \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_4(letter, 8), "%48", "%49",       \
               "%50")                                                                              \
  SINTER_WGMMA(A, B, Sum, types, scales, 112, SINTER_REGISTERS_56,                                 \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_4(letter, 8)                      \
                   SINTER_COMMA SINTER_SUMS(letter, 12) SINTER_COMMA SINTER_SUMS(letter, 13),      \
               "%56", "%57", "%58")                                                                \
  SINTER_WGMMA(A, B, Sum, types, scales, 128, SINTER_REGISTERS_64,                                 \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_8(letter, 8), "%64", "%65",       \
               "%66")                                                                              \
  SINTER_WGMMA(A, B, Sum, types, scales, 160, SINTER_REGISTERS_80,                                 \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_8(letter, 8)                      \
                   SINTER_COMMA SINTER_SUMS_4(letter, 16),                                         \
               "%80", "%81", "%82")                                                                \
  SINTER_WGMMA(A, B, Sum, types, scales, 192, SINTER_REGISTERS_96,                                 \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_8(letter, 8)                      \
                   SINTER_COMMA SINTER_SUMS_8(letter, 16),                                         \
               "%96", "%97", "%98")                                                                \
  SINTER_WGMMA(A, B, Sum, types, scales, 224, SINTER_REGISTERS_112,                                \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_8(letter, 8)                      \
                   SINTER_COMMA SINTER_SUMS_8(letter, 16) SINTER_COMMA SINTER_SUMS_4(letter, 24),  \
               "%112", "%113", "%114")                                                             \
  SINTER_WGMMA(A, B, Sum, types, scales, 256, SINTER_REGISTERS_128,                                \
               SINTER_SUMS_8(letter, 0) SINTER_COMMA SINTER_SUMS_8(letter, 8)                      \
                   SINTER_COMMA SINTER_SUMS_8(letter, 16) SINTER_COMMA SINTER_SUMS_8(letter, 24),  \
               "%128", "%129", "%130")
#define SINTER_WGMMA_INTEGERS(A, B, types) SINTER_WGMMA_ALL(A, B, i32, "r", "s32." types, "")
SINTER_WGMMA_INTEGERS(i8, i8, "s8.s8")
SINTER_WGMMA_INTEGERS(i8, u8, "s8.u8")
SINTER_WGMMA_INTEGERS(u8, i8, "u8.s8")
SINTER_WGMMA_INTEGERS(u8, u8, "u8.u8")
#undef SINTER_WGMMA_INTEGERS
#define SINTER_WGMMA_FLOATS(A, B, types) SINTER_WGMMA_ALL(A, B, float, "f", "f32." types, ", 1, 1")
SINTER_WGMMA_FLOATS(e4m3fn, e4m3fn, "e4m3.e4m3")
SINTER_WGMMA_FLOATS(e4m3fn, e5m2, "e4m3.e5m2")
SINTER_WGMMA_FLOATS(e5m2, e4m3fn, "e5m2.e4m3")
SINTER_WGMMA_FLOATS(e5m2, e5m2, "e5m2.e5m2")
#undef SINTER_WGMMA_FLOATS
// As above, with the A operand in registers.
#define SINTER_WGMMA_LEFT(n, registers, sums, a0, a1, a2, a3, at, keep)                           \
  SINTER_DEVICE void wgmma_instruction(e4m3fn, e4m3fn, float(&d)[n / 8][4], const u32(&a)[4],     \
                                       u64 b, bool add) {                                         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep                                         \
                 ", 0;\n"                                                                         \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" registers "}, {" a0 \
                 ", " a1 ", " a2 ", " a3 "}, " at ", p, 1, 1;\n}"                                 \
                 : sums                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                            \
                   "r"(static_cast<int>(add)));                                                   \
  }
SINTER_WGMMA_LEFT(64, SINTER_REGISTERS_32, SINTER_SUMS_8("f", 0), "%32", "%33", "%34", "%35", "%36",
                  "%37")
SINTER_WGMMA_LEFT(96, SINTER_REGISTERS_48, SINTER_SUMS_8("f", 0) SINTER_COMMA SINTER_SUMS_4("f", 8),
                  "%48", "%49", "%50", "%51", "%52", "%53")
SINTER_WGMMA_LEFT(128, SINTER_REGISTERS_64,
                  SINTER_SUMS_8("f", 0) SINTER_COMMA SINTER_SUMS_8("f", 8), "%64", "%65", "%66",
                  "%67", "%68", "%69")
#undef SINTER_WGMMA_LEFT
#undef SINTER_WGMMA_ALL
#undef SINTER_WGMMA
#undef SINTER_COMMA
#undef SINTER_SUMS_8
#undef SINTER_SUMS_4
#undef SINTER_SUMS
#endif

/// d[64][kN] = (add ? d : 0) + a[64][32] b[32][kN] of a warpgroup, of e4m3. `a` holds fragments as
/// in mma_fragments(); warp w holds rows 16 w to 16 w + 15. Element (k, n) of b is element (n,
/// first + k) of a tile that is one block of columns wide.
template <class B, int kTiles>
SINTER_DEVICE void wgmma_from_registers(float (&d)[kTiles][4], const u32 (&a)[4], const B* tile,
                                        int first, bool add) {
#ifdef __CUDACC__
  const u32 low = describe_tile(tile, 0) + static_cast<u32>(first / 16);
  wgmma_instruction(B{}, B{}, d, a, whole_descriptor(low), add);
#else
  struct Operand {
    u32 a[4];
  };
  const Operand mine{{a[0], a[1], a[2], a[3]}};
  const emulator::WarpExchange<Operand> lanes(mine);
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  float rows[2][32];
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 32; ++k)
      rows[i][k] = widen(byte_of<B>(lanes[g * 4 + k % 16 / 4].a[i + k / 16 * 2], k % 4));
  emulator::add_products(d, rows, add, [&](int j, int i, int k) {
    return widen(tile[swizzled_byte<kTiles * 8>(j * 8 + t + i, first + k)]);
  });
#endif
}

/// d as in wgmma(). Element (row, k) of a is element (row, first + k) of a tile that is one block
/// of columns wide. Element (k, n) of b is element (n, first + k) of a tile of kTileRows rows.
template <class A, class B>
struct EightBitProduct {
  template <int kTileRows, bool kRowsAreK, int kTiles>
  SINTER_DEVICE static void start(SumOf<A> (&d)[kTiles][4], const A* a, const B* b, int first,
                                  bool add) {
    static_assert(!kRowsAreK && kTileRows == kTiles * 8, "k is contiguous in both operands");
#ifdef __CUDACC__
    const u32 further = static_cast<u32>(first / 16);
    wgmma_instruction(A{}, B{}, d, whole_descriptor(describe_tile(a, 0) + further),
                      whole_descriptor(describe_tile(b, 0) + further), add);
#else
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
    SumOf<A> rows[2][32];
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 32; ++k)
        rows[i][k] = static_cast<SumOf<A> >(widen(a[swizzled_byte<64>(row + i * 8, first + k)]));
    emulator::add_products(d, rows, add, [&](int j, int i, int k) {
      const B& value = b[swizzled_byte<kTiles * 8>(j * 8 + lane % 4 * 2 + i, first + k)];
      return static_cast<SumOf<A> >(widen(value));
    });
#endif
  }
};
template <>
struct WarpgroupProduct<i8, i8> : EightBitProduct<i8, i8> {};
template <>
struct WarpgroupProduct<i8, u8> : EightBitProduct<i8, u8> {};
template <>
struct WarpgroupProduct<u8, i8> : EightBitProduct<u8, i8> {};
template <>
struct WarpgroupProduct<u8, u8> : EightBitProduct<u8, u8> {};
template <>
struct WarpgroupProduct<e4m3fn, e4m3fn> : EightBitProduct<e4m3fn, e4m3fn> {};
template <>
struct WarpgroupProduct<e4m3fn, e5m2> : EightBitProduct<e4m3fn, e5m2> {};
template <>
struct WarpgroupProduct<e5m2, e4m3fn> : EightBitProduct<e5m2, e4m3fn> {};
template <>
struct WarpgroupProduct<e5m2, e5m2> : EightBitProduct<e5m2, e5m2> {};

#endif  // SINTER_WARPGROUPS
