// SPDX-License-Identifier: Apache-2.0
// MMAs of a warpgroup (four warps, the first one's index a multiple of four) with the B operand
// in shared memory (wgmma, sm_90a only). On the host (tests/codegen) an MMA completes when it
// starts.
#pragma once

#include "mbarrier.cuh"

#ifdef SINTER_WARPGROUPS

// ---- tiles
/// Offset of element (row, column) in a tile of kRows rows, in blocks of 64 columns. A row of a
/// block is 128 bytes; its 16-byte units are permuted so that eight rows have no bank conflicts
/// (128-byte swizzle). A tile is aligned to 1024 bytes; kRows % 8 == 0.
template <int kRows>
SINTER_DEVICE int swizzled_place(int row, int column) {
  return column / 64 * (kRows * 64) + row * 64 + (column / 8 % 8 ^ row % 8) * 8 + column % 8;
}

/// Columns of a tile whose rows have `width` elements, rounded up to whole blocks.
constexpr int tile_width(int width) { return (width + 63) / 64 * 64; }

/// Neighbouring threads, of kThreads, that copy one row of `units` 16-byte units: a power of two.
/// All rows of a thread then have the same index modulo 8, and the tile is a multiple of the rows
/// copied at once.
template <int kRows, int kThreads>
constexpr int copy_threads(int units) {
  int across = 1;
  while (across < units || kRows % (kThreads / across) != 0) across *= 2;
  return across;
}

/// Row r of the tile is row r of the source.
struct InOrder {
  SINTER_DEVICE int operator()(int row) const { return row; }
};

/// copy_tile_rows() for kUnits units of 16 bytes of each row. Row r of the tile is source row first
/// + order(r); `order` permutes only within groups of rows that are copied at once.
template <int kRows, int kUnits, int kThreads, class T, class Order = InOrder>
SINTER_DEVICE void copy_tile_columns(T* tile, const T* from, i64 stride, i32 first, i32 count,
                                     int thread, const Order& order = {}) {
  constexpr int kAcross = copy_threads<kRows, kThreads>(kUnits), kAtOnce = kThreads / kAcross;
  static_assert(kAtOnce % 8 == 0, "a thread's rows all have the same place among eight");
  const int row = thread / kAcross, column = thread % kAcross * 8;
  if (kAcross != kUnits && column >= kUnits * 8) return;
  T* const to = tile + swizzled_place<kRows>(row, column);
  // Advanced from copy to copy: the producer's threads have few registers.
  const T* source = from + (first + order(row)) * stride + column;
  const i64 step = kAtOnce * stride;
  if (first + kRows <= count) {  // with a constant stride, one instruction per copy
#pragma unroll
    for (int i = 0; i < kRows / kAtOnce; ++i, source += step)
      cp_async<16>(to + i * kAtOnce * 64, source);
    return;
  }
  i32 left = count - first - order(row);
#pragma unroll
  for (int i = 0; i < kRows / kAtOnce; ++i) {
    cp_async<16>(to + i * kAtOnce * 64, left > 0 ? source : from, left > 0);
    source += step;
    left -= kAtOnce;
  }
}

/// Starts to copy rows [first, first + kRows) of `count`, kWidth elements each, to a tile. Rows
/// from `count` on become zeros. All addresses are 16-byte aligned.
template <int kRows, int kWidth, int kThreads, class T>
SINTER_DEVICE void copy_tile_rows(T* tile, const T* from, i64 stride, i32 first, i32 count,
                                  int thread) {
  if constexpr (kWidth == 128) {  // a whole row of 256 bytes at once
    copy_tile_columns<kRows, 16, kThreads>(tile, from, stride, first, count, thread);
  } else {
#pragma unroll
    for (int block = 0; block < kWidth / 64; ++block)
      copy_tile_columns<kRows, 8, kThreads>(tile + block * kRows * 64, from + block * 64, stride,
                                            first, count, thread);
    if constexpr (kWidth % 64 != 0)
      copy_tile_columns<kRows, kWidth % 64 / 8, kThreads>(
          tile + kWidth / 64 * kRows * 64, from + kWidth / 64 * 64, stride, first, count, thread);
  }
}

/// copy_tile_rows() for scattered rows: row r begins at row_at(r). `from` is never read.
template <int kRows, int kWidth, int kThreads, class T, class RowAt>
SINTER_DEVICE void copy_tile_of_rows(T* tile, const T* from, i32 first, i32 count, int thread,
                                     const RowAt& row_at) {
  constexpr int kUnits = kWidth % 128 == 0 ? 16 : 8,
                kAcross = copy_threads<kRows, kThreads>(kUnits), kAtOnce = kThreads / kAcross;
  static_assert(kAcross == kUnits && kAtOnce % 8 == 0, "threads take whole units of their own");
  const int row = thread / kAcross, column = thread % kAcross * 8;
#pragma unroll
  for (int block = 0; block < kWidth; block += kUnits * 8) {
    const int width = kWidth - block;  // the last block may have fewer units
    if (column >= width) break;
    T* const to = tile + swizzled_place<kRows>(row, block + column);
#pragma unroll 4
    for (int i = 0; i < kRows / kAtOnce; ++i) {
      const i32 r = first + row + i * kAtOnce;
      const bool exists = r < count;
      cp_async<16>(to + i * kAtOnce * 64, exists ? row_at(r) + block + column : from, exists);
    }
  }
}

/// Zeroes the columns from kWidth up to a multiple of 16: copy_tile_rows() does not write them, and
/// MMAs over the columns read them.
template <int kRows, int kWidth, class T>
SINTER_DEVICE void clear_padding(T* tile, int thread, int threads) {
  static_assert(kWidth % 8 == 0, "whole units of 16 bytes");
  if constexpr (kWidth % 16 != 0)
    for (int row = thread; row < kRows; row += threads)
      *reinterpret_cast<uint4*>(tile + swizzled_place<kRows>(row, kWidth)) = uint4{0, 0, 0, 0};
}

// ---- matrix multiply-accumulate
#ifdef __CUDACC__
/// The lower half of a tile's wgmma matrix descriptor: its address and the stride between
/// blocks of 64 columns (ignored if K runs along the columns). Adding 1 advances it by eight
/// elements. The mask removes the block's rank, which addresses in a cluster have in their
/// upper bits.
SINTER_DEVICE u32 describe_tile(const void* tile, u32 block_bytes) {
  return (shared_address(tile) & 0x3ffff) >> 4 | block_bytes >> 4 << 16;
}
/// Adds the upper half: the stride between groups of eight rows, and the swizzle mode.
SINTER_DEVICE u64 whole_descriptor(u32 low) {
  u64 result;
  asm("mov.b64 %0, {%1, %2};" : "=l"(result) : "r"(low), "r"(1024u >> 4 | 1u << 30));
  return result;
}

#define SINTER_TILE(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define SINTER_TILES_8(j)                                                                         \
  SINTER_TILE(j), SINTER_TILE(j + 1), SINTER_TILE(j + 2), SINTER_TILE(j + 3), SINTER_TILE(j + 4), \
      SINTER_TILE(j + 5), SINTER_TILE(j + 6), SINTER_TILE(j + 7)
// Also used for operands of 8 bits.
#define SINTER_REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SINTER_REGISTERS_32 \
  SINTER_REGISTERS_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SINTER_REGISTERS_48 \
  SINTER_REGISTERS_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define SINTER_REGISTERS_56 SINTER_REGISTERS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define SINTER_REGISTERS_64 SINTER_REGISTERS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define SINTER_REGISTERS_80 \
  SINTER_REGISTERS_64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define SINTER_REGISTERS_96 \
  SINTER_REGISTERS_80       \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SINTER_REGISTERS_112                                                                 \
  SINTER_REGISTERS_96                                                                        \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
  "%111"
#define SINTER_REGISTERS_128                                                                     \
  SINTER_REGISTERS_112                                                                           \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, " \
  "%127"
#define SINTER_WGMMA(T, type, n, registers, tiles, a0, a1, a2, a3, at, keep, order)                \
  template <bool kRowsAreK>                                                                        \
  SINTER_DEVICE void wgmma_instruction(T, float(&d)[n / 8][4], const u32(&a)[4],                   \
                                       unsigned long long b, bool add) {                           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep                                          \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" registers    \
                 "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " at ", p, 1, 1, " order ";\n}"             \
                 : tiles                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), \
                   "n"(kRowsAreK ? 1 : 0));                                                        \
  }
// As above, with the A operand in shared memory.
#define SINTER_WGMMA_TILES(T, type, n, registers, tiles, at_a, at_b, keep, order)               \
  template <bool kRowsAreK>                                                                     \
  SINTER_DEVICE void wgmma_instruction(T, float(&d)[n / 8][4], u64 a, u64 b, bool add) {        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep                                       \
                 ", 0;\n"                                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" registers \
                 "}, " at_a ", " at_b ", p, 1, 1, 0, " order ";\n}"                             \
                 : tiles                                                                        \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kRowsAreK ? 1 : 0));         \
  }
#define SINTER_COMMA ,
#define SINTER_TILES_4(j) \
  SINTER_TILE(j)          \
  SINTER_COMMA SINTER_TILE(j + 1) SINTER_COMMA SINTER_TILE(j + 2) SINTER_COMMA SINTER_TILE(j + 3)
#define SINTER_WGMMA_64(T, type)                                                                \
  SINTER_WGMMA(T, type, 64, SINTER_REGISTERS_32, SINTER_TILES_8(0), "%32", "%33", "%34", "%35", \
               "%36", "%37", "%38")
#define SINTER_WGMMA_96(T, type)                                                         \
  SINTER_WGMMA(T, type, 96, SINTER_REGISTERS_48,                                         \
               SINTER_TILES_8(0) SINTER_COMMA SINTER_TILE(8) SINTER_COMMA SINTER_TILE(9) \
                   SINTER_COMMA SINTER_TILE(10) SINTER_COMMA SINTER_TILE(11),            \
               "%48", "%49", "%50", "%51", "%52", "%53", "%54")
#define SINTER_WGMMA_128(T, type)                                                            \
  SINTER_WGMMA(T, type, 128, SINTER_REGISTERS_64,                                            \
               SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_8(8), "%64", "%65", "%66", "%67", \
               "%68", "%69", "%70")
SINTER_WGMMA_64(f16, "f16")
SINTER_WGMMA_64(bf16, "bf16")
SINTER_WGMMA_96(f16, "f16")
SINTER_WGMMA_96(bf16, "bf16")
SINTER_WGMMA_128(f16, "f16")
SINTER_WGMMA_128(bf16, "bf16")
#define SINTER_WGMMA_ALL_TILES(T, type)                                                            \
  SINTER_WGMMA_TILES(T, type, 32, SINTER_REGISTERS_16, SINTER_TILES_4(0), "%16", "%17", "%18",     \
                     "%19")                                                                        \
  SINTER_WGMMA_TILES(T, type, 64, SINTER_REGISTERS_32, SINTER_TILES_8(0), "%32", "%33", "%34",     \
                     "%35")                                                                        \
  SINTER_WGMMA_TILES(T, type, 96, SINTER_REGISTERS_48,                                             \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_4(8), "%48", "%49", "%50", "%51") \
  SINTER_WGMMA_TILES(T, type, 112, SINTER_REGISTERS_56,                                            \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_4(8) SINTER_COMMA SINTER_TILE(12) \
                         SINTER_COMMA SINTER_TILE(13),                                             \
                     "%56", "%57", "%58", "%59")                                                   \
  SINTER_WGMMA_TILES(T, type, 128, SINTER_REGISTERS_64,                                            \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_8(8), "%64", "%65", "%66", "%67") \
  SINTER_WGMMA_TILES(T, type, 160, SINTER_REGISTERS_80,                                            \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_8(8)                              \
                         SINTER_COMMA SINTER_TILES_4(16),                                          \
                     "%80", "%81", "%82", "%83")                                                   \
  SINTER_WGMMA_TILES(T, type, 192, SINTER_REGISTERS_96,                                            \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_8(8)                              \
                         SINTER_COMMA SINTER_TILES_8(16),                                          \
                     "%96", "%97", "%98", "%99")                                                   \
  SINTER_WGMMA_TILES(T, type, 224, SINTER_REGISTERS_112,                                           \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_8(8)                              \
                         SINTER_COMMA SINTER_TILES_8(16) SINTER_COMMA SINTER_TILES_4(24),          \
                     "%112", "%113", "%114", "%115")                                               \
  SINTER_WGMMA_TILES(T, type, 256, SINTER_REGISTERS_128,                                           \
                     SINTER_TILES_8(0) SINTER_COMMA SINTER_TILES_8(8)                              \
                         SINTER_COMMA SINTER_TILES_8(16) SINTER_COMMA SINTER_TILES_8(24),          \
                     "%128", "%129", "%130", "%131")
SINTER_WGMMA_ALL_TILES(f16, "f16")
SINTER_WGMMA_ALL_TILES(bf16, "bf16")
#undef SINTER_WGMMA_ALL_TILES
#undef SINTER_WGMMA_TILES
#undef SINTER_TILES_4
#undef SINTER_WGMMA_128
#undef SINTER_WGMMA_96
#undef SINTER_COMMA
#undef SINTER_WGMMA_64
#undef SINTER_WGMMA
#undef SINTER_TILES_8
#undef SINTER_TILE
#endif

/// Starts d[64][kN] = (add ? d : 0) + a[64][16] b[16][kN] of a warpgroup; a and d as in
/// mma_16x8x16(), warp w holds rows 16 w to 16 w + 15. kRowsAreK: b[k][n] is element (first + k, n)
/// of the tile; otherwise element (n, first + k), n < kTileRows. Registers and tile must not be
/// accessed before warpgroup_wait().
template <int kTileRows, bool kRowsAreK, class T, int kTiles>
SINTER_DEVICE void wgmma(float (&d)[kTiles][4], const u32 (&a)[4], const T* tile, int first,
                         bool add) {
  static_assert(kRowsAreK || kTileRows == kTiles * 8, "one column for each row of the tile");
#ifdef __CUDACC__
  const int further = kRowsAreK ? first * 64 : first / 64 * (kTileRows * 64) + first % 64;
  const u32 low = describe_tile(tile, kTileRows * 128) + static_cast<u32>(further / 8);
  wgmma_instruction<kRowsAreK>(T{}, d, a, whole_descriptor(low), add);
#else
  struct Operand {
    u32 a[4];
  };
  const Operand mine{{a[0], a[1], a[2], a[3]}};
  const emulator::WarpExchange<Operand> lanes(mine);
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  float rows[2][16];
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 16; ++k) {
      const u32 pair = lanes[g * 4 + k % 8 / 2].a[i + k / 8 * 2];
      rows[i][k] = k % 2 == 0 ? low_of<T>(pair) : high_of<T>(pair);
    }
  emulator::add_products(d, rows, add, [&](int j, int i, int k) {
    const int column = j * 8 + t + i;
    return widen(tile[kRowsAreK ? swizzled_place<kTileRows>(first + k, column)
                                : swizzled_place<kTileRows>(column, first + k)]);
  });
#endif
}

/// wgmma() with a[64][16] in shared memory: element (row, k) is element (row, first + k) of the
/// tile `a`, which is one block of columns wide; first + 16 <= 64.
template <int kTileRows, bool kRowsAreK, class T, int kTiles>
SINTER_DEVICE void wgmma(float (&d)[kTiles][4], const T* a, const T* b, int first, bool add) {
  static_assert(kRowsAreK || kTileRows == kTiles * 8, "one column for each row of the tile");
#ifdef __CUDACC__
  const u32 left = describe_tile(a, 0) + static_cast<u32>(first / 8);
  const u32 right =
      describe_tile(b, kTileRows * 128) + static_cast<u32>(first * (kRowsAreK ? 64 : 1) / 8);
  wgmma_instruction<kRowsAreK>(T{}, d, whole_descriptor(left), whole_descriptor(right), add);
#else
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  u32 pairs[4];
  for (int i = 0; i < 4; ++i) {
    const int row = warp * 16 + lane / 4 + i % 2 * 8, k = first + lane % 4 * 2 + i / 2 * 8;
    pairs[i] = a[swizzled_place<64>(row, k)].bits |
               static_cast<u32>(a[swizzled_place<64>(row, k + 1)].bits) << 16;
  }
  wgmma<kTileRows, kRowsAreK>(d, pairs, b, first, add);
#endif
}

/// Starts an MMA of elements of A and B, both in shared memory; that for 8 bits has the
/// 8-bit ones. `first` is the first of kFragmentDepth<A> elements along k; see wgmma().
template <class A, class B>
struct WarpgroupProduct {
  static_assert(sizeof(A) == 2, "elements of 16 bits");
  template <int kTileRows, bool kRowsAreK, int kTiles>
  SINTER_DEVICE static void start(float (&d)[kTiles][4], const A* a, const B* b, int first,
                                  bool add) {
    wgmma<kTileRows, kRowsAreK>(d, a, b, first, add);
  }
};

/// wgmma.fence: before the first MMA, and after other code has written its registers.
SINTER_DEVICE void warpgroup_arrive() {
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// Commits all MMAs started since the last commit as one group.
SINTER_DEVICE void warpgroup_commit() {
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Waits until all but the latest kGroups groups have completed. Registers of completed groups must
/// pass through `settle` before they are read or written.
template <int kGroups>
SINTER_DEVICE void warpgroup_wait() {
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
#endif
}
template <int kCount>
SINTER_DEVICE void settle(float (&d)[kCount][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (int j = 0; j < kCount; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(d[j][e])::"memory");
#endif
}
template <int kCount>
SINTER_DEVICE void settle(i32 (&d)[kCount][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (int j = 0; j < kCount; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(d[j][e])::"memory");
#endif
}
template <int kCount>
SINTER_DEVICE void settle(u32 (&a)[kCount][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (int j = 0; j < kCount; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(a[j][e])::"memory");
#endif
}

/// setmaxnreg: registers of each thread of the warpgroup from now on; requires one block per SM.
template <int kCount, bool kMore>
SINTER_DEVICE void set_registers() {
#ifdef __CUDACC__
  if constexpr (kMore)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

#endif  // SINTER_WARPGROUPS
