// SPDX-License-Identifier: Apache-2.0
// TMA copies to shared memory (sm_90 and later) of boxes of tensors (tiled mode) and of pixels of
// convolution windows (im2col mode). One thread starts a copy, an mbarrier counts its bytes. On the
// host (tests/codegen) a copy completes when it starts.
#pragma once

#include "warpgroup.cuh"

/// A kernel parameter (KernelVariant.maps): the TMA descriptor of a tensor.
#ifdef __CUDACC__
struct alignas(64) TensorMap {
  u64 words[16];
};
#else
struct TensorMap {
  long base, bytes, rank, extents[5], strides[5], box[5];  // bytes of an element; strides are in
                                                           // bytes
  long lower[3], upper[3], steps[3];                       // im2col mode: bounding box and window
                                                           // strides
};
#endif

#ifdef SINTER_WARPGROUPS

/// Prefetches a TMA descriptor before its first use.
SINTER_DEVICE void prefetch_tma_descriptor(const TensorMap& map) {
#ifdef __CUDACC__
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

#ifndef __CUDACC__
inline void emulated_tma_row(unsigned char* to, const TensorMap& map, long row, long from,
                             bool valid, long first) {
  for (long column = 0; column < map.box[0]; ++column) {
    const long element = first + column, byte = column * map.bytes;
    unsigned char* const target = to + row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16;
    if (valid && element >= 0 && element < map.extents[0])
      memcpy(target, reinterpret_cast<const char*>(map.base) + (from + element) * map.bytes,
             static_cast<unsigned long>(map.bytes));
    else
      memset(target, 0, static_cast<unsigned long>(map.bytes));
  }
}

inline void check_emulated_copy(const void* to, const TensorMap& map, long rank) {
  if (map.rank != rank) emulator::error = "a tensor map has another rank";
  if (reinterpret_cast<unsigned long>(to) % 1024 != 0)
    emulator::error = "a box begins within a tile's eight rows";
}

/// Copies, for consecutive windows from the one whose first pixel is `at`, the pixel at offset
/// `tap`.
inline void emulated_im2col_load(unsigned char* to, const TensorMap& map, const i32* at,
                                 const i32* tap) {
  long window[5];
  for (int d = 0; d < map.rank; ++d) window[d] = at[d];
  for (long row = 0; row < map.box[1]; ++row) {
    long from = window[map.rank - 1] * map.strides[map.rank - 1];
    bool valid = window[map.rank - 1] < map.extents[map.rank - 1];
    for (int d = 1; d + 1 < map.rank; ++d) {
      const long pixel = window[d] + tap[d - 1];
      valid = valid && pixel >= 0 && pixel < map.extents[d];
      from += pixel * map.strides[d];
    }
    emulated_tma_row(to, map, row, from, valid, at[0]);
    for (int d = 1; d < map.rank; ++d) {
      if (d + 1 == map.rank) {
        ++window[d];
        break;
      }
      window[d] += map.steps[d - 1];
      if (window[d] <= map.extents[d] - 1 + map.upper[d - 1]) break;
      window[d] = map.lower[d - 1];
    }
  }
}

inline void emulated_tma_load(unsigned char* to, const TensorMap& map, const i32* at) {
  long rows = 1;
  for (int d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (long row = 0; row < rows; ++row) {
    long from = 0, rest = row;
    bool valid = true;
    for (int d = 1; d < map.rank; ++d) {
      const long coordinate = at[d] + rest % map.box[d];
      rest /= map.box[d];
      valid = valid && coordinate >= 0 && coordinate < map.extents[d];
      from += coordinate * map.strides[d];
    }
    emulated_tma_row(to, map, row, from, valid, at[0]);
  }
}
#endif

/// Starts a copy of the box that begins at `at` to a tile swizzled as in swizzled_place(). Elements
/// outside the tensor are zero. `arrivals` must expect the bytes.
template <int kRank>
SINTER_DEVICE void tma_load(void* to, const TensorMap& map, const i32 (&at)[kRank],
                            MBarrier& arrivals) {
#ifdef __CUDACC__
#define SINTER_TMA_LOAD(rank, coordinates, ...)                                             \
  if constexpr (kRank == rank)                                                              \
  asm volatile(                                                                             \
      "cp.async.bulk.tensor." #rank                                                         \
      "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" coordinates \
      "}], [%2];" ::"r"(shared_address(to)),                                                \
      "l"(&map), "r"(shared_address(&arrivals)), __VA_ARGS__                                \
      : "memory")
  SINTER_TMA_LOAD(2, "%3, %4", "r"(at[0]), "r"(at[1]));
  SINTER_TMA_LOAD(3, "%3, %4, %5", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  SINTER_TMA_LOAD(4, "%3, %4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  SINTER_TMA_LOAD(5, "%3, %4, %5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                  "r"(at[4]));
#undef SINTER_TMA_LOAD
#else
  check_emulated_copy(to, map, kRank);
  long bytes = map.bytes;
  for (int d = 0; d < kRank; ++d) bytes *= map.box[d];
  emulated_tma_load(static_cast<unsigned char*>(to), map, at);
  arrivals.count_bytes(static_cast<u32>(bytes));
#endif
}

/// tma_load() to the same offset of kBlocks blocks of the cluster, from block `first` on. Each
/// block's own `arrivals` counts the bytes; the L2 is read once.
template <int kBlocks, int kRank>
SINTER_DEVICE void tma_load_multicast(void* to, const TensorMap& map, const i32 (&at)[kRank],
                                      MBarrier& arrivals, u32 first) {
#ifdef __CUDACC__
#define SINTER_TMA_MULTICAST(rank, coordinates, blocks, ...)                                    \
  if constexpr (kRank == rank)                                                                  \
  asm volatile("cp.async.bulk.tensor." #rank                                                    \
               "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster " \
               "[%0], [%1, {" coordinates "}], [%2], " blocks ";" ::"r"(shared_address(to)),    \
               "l"(&map), "r"(shared_address(&arrivals)), __VA_ARGS__,                          \
               "h"(static_cast<u16>(((1 << kBlocks) - 1) << first))                             \
               : "memory")
  SINTER_TMA_MULTICAST(2, "%3, %4", "%5", "r"(at[0]), "r"(at[1]));
  SINTER_TMA_MULTICAST(3, "%3, %4, %5", "%6", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  SINTER_TMA_MULTICAST(4, "%3, %4, %5, %6", "%7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  SINTER_TMA_MULTICAST(5, "%3, %4, %5, %6, %7", "%8", "r"(at[0]), "r"(at[1]), "r"(at[2]),
                       "r"(at[3]), "r"(at[4]));
#undef SINTER_TMA_MULTICAST
#else
  for (u32 block = first; block < first + kBlocks; ++block)
    tma_load(emulator::of_block(static_cast<unsigned char*>(to), block), map, at,
             *emulator::of_block(&arrivals, block));
#endif
}

/// Starts an im2col copy: channels from at[0] on, one pixel of each consecutive window. `at`
/// (channel, width .., image) is the first pixel of the first window, `tap` the pixel's offset
/// within each window.
template <int kRank>
SINTER_DEVICE void tma_load_im2col(void* to, const TensorMap& map, const i32 (&at)[kRank],
                                   const i32 (&tap)[kRank - 2], MBarrier& arrivals) {
#ifdef __CUDACC__
#define SINTER_IM2COL_LOAD(rank, coordinates, taps, ...)                                      \
  if constexpr (kRank == rank)                                                                \
  asm volatile(                                                                               \
      "cp.async.bulk.tensor." #rank                                                           \
      "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {" coordinates \
      "}], [%2], {" taps "};" ::"r"(shared_address(to)),                                      \
      "l"(&map), "r"(shared_address(&arrivals)), __VA_ARGS__                                  \
      : "memory")
  u16 short_tap[kRank - 2];
#pragma unroll
  for (int d = 0; d < kRank - 2; ++d) short_tap[d] = static_cast<u16>(tap[d]);
  SINTER_IM2COL_LOAD(3, "%3, %4, %5", "%6", "r"(at[0]), "r"(at[1]), "r"(at[2]), "h"(short_tap[0]));
  SINTER_IM2COL_LOAD(4, "%3, %4, %5, %6", "%7, %8", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                     "h"(short_tap[0]), "h"(short_tap[1]));
  SINTER_IM2COL_LOAD(5, "%3, %4, %5, %6, %7", "%8, %9, %10", "r"(at[0]), "r"(at[1]), "r"(at[2]),
                     "r"(at[3]), "r"(at[4]), "h"(short_tap[0]), "h"(short_tap[1]),
                     "h"(short_tap[2]));
#undef SINTER_IM2COL_LOAD
#else
  check_emulated_copy(to, map, kRank);
  emulated_im2col_load(static_cast<unsigned char*>(to), map, at, tap);
  arrivals.count_bytes(static_cast<u32>(map.bytes * map.box[0] * map.box[1]));
#endif
}

#endif  // SINTER_WARPGROUPS
