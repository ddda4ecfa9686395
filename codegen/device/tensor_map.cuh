// Boxes of tensors in memory, copied to shared memory by the copy engine (sm_90 and later): one
// thread starts a copy, a MBarrier counts its bytes. On the host (tests/codegen) a copy is done
// when it is started.
#pragma once

#include "warpgroup.cuh"

/// A parameter (KernelVariant.maps): what the copy engine knows of a tensor.
#ifdef __CUDACC__
struct alignas(64) TensorMap {
  u64 words[16];
};
#else
struct TensorMap {
  long base, bytes, rank, extents[5], strides[5], box[5];  // bytes of an element; strides in those
};
#endif

#ifdef SINTER_WARPGROUPS

/// Fetches a map itself, ahead of its first use.
SINTER_DEVICE void prefetch_tma_descriptor(const TensorMap& map) {
#ifdef __CUDACC__
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

#ifndef __CUDACC__
inline void emulated_tma_load(unsigned char* to, const TensorMap& map, const i32* at) {
  long rows = 1;
  for (int d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (long row = 0; row < rows; ++row) {
    long from = 0, rest = row;
    bool valid = true;
    for (int d = 1; d < map.rank; ++d) {
      const long place = at[d] + rest % map.box[d];
      rest /= map.box[d];
      valid = valid && place >= 0 && place < map.extents[d];
      from += place * map.strides[d];
    }
    for (long column = 0; column < map.box[0]; ++column) {
      const long place = at[0] + column, byte = column * map.bytes;
      unsigned char* const target = to + row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16;
      if (valid && place >= 0 && place < map.extents[0])
        memcpy(target, reinterpret_cast<const char*>(map.base) + (from + place) * map.bytes,
               static_cast<unsigned long>(map.bytes));
      else
        memset(target, 0, static_cast<unsigned long>(map.bytes));
    }
  }
}
#endif

/// Starts to copy the box that begins at `at`, zeros where it is outside, to a tile as
/// swizzled_place has it; `arrivals` expects its bytes.
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
  if (map.rank != kRank) emulator::error = "a tensor map has another rank";
  if (reinterpret_cast<unsigned long>(to) % 1024 != 0)
    emulator::error = "a box begins within a tile's eight rows";
  long bytes = map.bytes;
  for (int d = 0; d < kRank; ++d) bytes *= map.box[d];
  emulated_tma_load(static_cast<unsigned char*>(to), map, at);
  arrivals.count_bytes(static_cast<u32>(bytes));
#endif
}

#endif  // SINTER_WARPGROUPS
