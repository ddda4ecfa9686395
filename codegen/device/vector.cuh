// SPDX-License-Identifier: Apache-2.0
// Several neighbouring elements as one memory access of up to 16 bytes.
#pragma once

#include "scalar.cuh"

/// N contiguous elements; more than 16 bytes are several accesses.
template <class T, int N, bool kInWords = sizeof(T) == 1 && N % 4 == 0>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};
/// A union with words: compilers pass structs member by member and would split the bytes.
template <class T, int N>
struct alignas(N < 16 ? N : 16) Vec<T, N, true> {
  union {
    u32 words[N / 4];
    T v[N];
  };
};

// Registers that one access fills. All memory accesses use these: compilers may split a copy of a
// struct of 16-bit elements into narrower accesses.
template <int kBytes>
struct Words;
template <>
struct Words<16> {
  typedef uint4 type;
};
template <>
struct Words<8> {
  typedef uint2 type;
};
template <>
struct Words<4> {
  typedef u32 type;
};
template <>
struct Words<2> {
  typedef u16 type;
};
template <>
struct Words<1> {
  typedef u8 type;
};

template <int N, class T>
SINTER_DEVICE Vec<T, N> load(const T* p) {
  constexpr int kBytes = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
  typedef typename Words<kBytes>::type Access;
  Vec<T, N> result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) * N / kBytes; ++i) {
    const Access words = reinterpret_cast<const Access*>(p)[i];
    memcpy(reinterpret_cast<char*>(&result) + i * kBytes, &words, kBytes);
  }
  return result;
}

/// A load of data that is reused often and not written meanwhile: the L2 evicts it last.
template <int N, class T>
SINTER_DEVICE Vec<T, N> load_kept(const T* p) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  constexpr int kBytes = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
  if constexpr (kBytes == 16) {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    Vec<T, N> result;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T)) * N / kBytes; ++i) {
      uint4 words;
      // Volatile: the load must not move above the wait for the preceding kernel.
      asm volatile("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                   : "l"(reinterpret_cast<const uint4*>(p) + i), "l"(policy));
      memcpy(reinterpret_cast<char*>(&result) + i * kBytes, &words, kBytes);
    }
    return result;
  }
#endif
  return load<N>(p);
}

/// An element that is read once: it leaves the caches before what is read again.
template <class T>
SINTER_DEVICE T load_once(const T* p) {
#ifdef __CUDACC__
  T result;
  if constexpr (sizeof(T) == 8) {
    u64 bits;
    asm volatile("ld.global.cs.u64 %0, [%1];" : "=l"(bits) : "l"(p));
    memcpy(&result, &bits, sizeof(T));
    return result;
  } else if constexpr (sizeof(T) == 4) {
    u32 bits;
    asm volatile("ld.global.cs.u32 %0, [%1];" : "=r"(bits) : "l"(p));
    memcpy(&result, &bits, sizeof(T));
    return result;
  } else if constexpr (sizeof(T) == 2) {
    u16 bits;
    asm volatile("ld.global.cs.u16 %0, [%1];" : "=h"(bits) : "l"(p));
    memcpy(&result, &bits, sizeof(T));
    return result;
  }
#endif
  return *p;
}

template <class T, int N>
SINTER_DEVICE void store(T* p, const Vec<T, N>& x) {
  constexpr int kBytes = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
  typedef typename Words<kBytes>::type Access;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) * N / kBytes; ++i) {
    Access words;
    memcpy(&words, reinterpret_cast<const char*>(&x) + i * kBytes, kBytes);
    reinterpret_cast<Access*>(p)[i] = words;
  }
}

/// Starts a copy of N elements to shared memory. A thread can have any number of copies in flight,
/// as they occupy no registers; the compiler cannot delay the request until first use.
template <class T, int N>
SINTER_DEVICE void copy_async(Vec<T, N>* shared, const T* p) {
#ifdef __CUDACC__
  constexpr int kBytes = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) * N / kBytes; ++i) {
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(shared)) + i * kBytes;
    const char* from = reinterpret_cast<const char*>(p) + i * kBytes;
    if (kBytes == 16)  // bypasses the L1: each element is used once
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                   : "memory");
  }
#else
  *shared = load<N>(p);
#endif
}
/// Waits until this thread's copies have completed; other threads see them after a barrier.
SINTER_DEVICE void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Keeps the narrow elements `x` in registers: values computed from them are recomputed (widened
/// again), not kept.
template <class T, int N>
SINTER_DEVICE void hold(Vec<T, N>& x) {
#ifdef __CUDACC__
  if constexpr (sizeof(x) >= 4) {
    u32 words[sizeof(x) / 4];
    memcpy(words, &x, sizeof(x));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(x) / 4); ++i) asm volatile("" : "+r"(words[i]));
    memcpy(&x, words, sizeof(x));
  }
#endif
}

/// Zero, as a value unknown to compilers.
SINTER_DEVICE u32 unknown_zero() {
#ifdef __CUDACC__
  u32 processor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  return processor >> 20;
#else
  return 0;
#endif
}

/// hold() for passes without a barrier in between: hold() leaves no instruction, so that ptxas
/// would merge the repeated conversions. `zero` is unknown_zero().
template <class T, int N, int kVectors>
SINTER_DEVICE void hold(Vec<T, N> (&x)[kVectors], u32 zero) {
#ifdef __CUDACC__
  if constexpr (sizeof(x[0]) >= 4) {
    if (zero == 0) return;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      u32 words[sizeof(x[k]) / 4];
      memcpy(words, &x[k], sizeof(x[k]));
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(x[k]) / 4); ++i) words[i] ^= zero + k;
      memcpy(&x[k], words, sizeof(x[k]));
    }
  }
#endif
}

/// Element j in its compute type.
template <class T, int N>
SINTER_DEVICE auto widen(const Vec<T, N>& x, int j) {
  return widen(x.v[j]);
}
#ifdef __CUDACC__
// Extracts 16-bit floats from 32-bit registers: otherwise compilers keep each half in a register of
// its own and add moves.
template <int N>
SINTER_DEVICE float widen(const Vec<bf16, N>& x, int j) {
  static_assert(N % 2 == 0, "vectors of 16-bit floats have an even length");
  u32 pair;
  memcpy(&pair, &x.v[j / 2 * 2], sizeof(pair));
  return __uint_as_float(j % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}
template <int N>
SINTER_DEVICE float widen(const Vec<f16, N>& x, int j) {
  static_assert(N % 2 == 0, "vectors of 16-bit floats have an even length");
  u32 pair;
  memcpy(&pair, &x.v[j / 2 * 2], sizeof(pair));
  float low, high;
  asm("{ .reg .b16 h, unused; mov.b32 {h, unused}, %1; cvt.f32.f16 %0, h; }"
      : "=f"(low)
      : "r"(pair));
  asm("{ .reg .b16 unused, h; mov.b32 {unused, h}, %1; cvt.f32.f16 %0, h; }"
      : "=f"(high)
      : "r"(pair));
  return j % 2 == 0 ? low : high;
}
#endif

template <int N, class T>
SINTER_DEVICE Vec<T, N> splat(T value) {
  Vec<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) result.v[j] = value;
  return result;
}

/// N elements from `p`, or `fill` without a read if not `guard`. One predicated access: for `guard
/// ? load : fill` compilers emit branches that serialize loads.
template <int N, class T>
SINTER_DEVICE Vec<T, N> load_if(bool guard, const T* p, T fill) {
#ifdef __CUDACC__
  constexpr int kBytes = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
  if constexpr (kBytes > 1) {
    typedef typename Words<kBytes>::type Access;
    Vec<T, N> result = splat<N>(fill);
    const u32 reads = guard;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T)) * N / kBytes; ++i) {
      const Access* from = reinterpret_cast<const Access*>(p) + i;
      Access words;
      memcpy(&words, reinterpret_cast<const char*>(&result) + i * kBytes, kBytes);
      // Volatile: the load must not move above the wait for the preceding kernel.
      if constexpr (kBytes == 16)
        asm volatile(
            "{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
            : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
            : "l"(from), "r"(reads));
      else if constexpr (kBytes == 8)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
                     : "+r"(words.x), "+r"(words.y)
                     : "l"(from), "r"(reads));
      else if constexpr (kBytes == 4)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.u32 %0, [%1]; }"
                     : "+r"(words)
                     : "l"(from), "r"(reads));
      else
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.u16 %0, [%1]; }"
                     : "+h"(words)
                     : "l"(from), "r"(reads));
      memcpy(reinterpret_cast<char*>(&result) + i * kBytes, &words, kBytes);
    }
    return result;
  }
#endif
  if (!guard) return splat<N>(fill);
  return load<N>(p);
}

template <class T>
struct Pack {
  template <int N, class From>
  SINTER_DEVICE static Vec<T, N> of(const From (&x)[N]) {
    Vec<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.v[j] = narrow<T>(x[j]);
    return result;
  }
};
#ifdef __CUDACC__
// One instruction rounds two floats into one register.
#define SINTER_PACK_PAIRS(T, instruction)                                        \
  template <>                                                                    \
  struct Pack<T> {                                                               \
    template <int N>                                                             \
    SINTER_DEVICE static Vec<T, N> of(const float (&x)[N]) {                     \
      static_assert(N % 2 == 0, "vectors of 16-bit floats have an even length"); \
      Vec<T, N> result;                                                          \
      _Pragma("unroll") for (int j = 0; j < N; j += 2) {                         \
        u32 pair;                                                                \
        asm(instruction " %0, %1, %2;" : "=r"(pair) : "f"(x[j + 1]), "f"(x[j])); \
        memcpy(&result.v[j], &pair, sizeof(pair));                               \
      }                                                                          \
      return result;                                                             \
    }                                                                            \
  };
SINTER_PACK_PAIRS(f16, "cvt.rn.f16x2.f32")
SINTER_PACK_PAIRS(bf16, "cvt.rn.bf16x2.f32")
#undef SINTER_PACK_PAIRS
#endif

/// Rounds N values to T and stores them.
template <class T, class From, int N>
SINTER_DEVICE void store(T* p, const From (&x)[N]) {
  store(p, Pack<T>::of(x));
}

/// Byte permutation (PRMT): nibble i of `which` selects byte i of the result from `a` (0 .. 3) and
/// `b` (4 .. 7).
SINTER_DEVICE u32 pick_bytes(u32 a, u32 b, u32 which) {
#ifdef __CUDACC__
  u32 result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(which));
  return result;
#else
  const u64 both = static_cast<u64>(b) << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<u32>(both >> (which >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  return result;
#endif
}
