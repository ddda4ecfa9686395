// Several neighbouring elements as one memory access of up to 16 bytes.
#pragma once

#include "scalar.cuh"

/// N elements as they lie in memory; more than 16 bytes are several accesses.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};

template <int N, class T>
SINTER_DEVICE Vec<T, N> load(const T* p) {
  return *reinterpret_cast<const Vec<T, N>*>(p);
}
template <int N, class T>
SINTER_DEVICE Vec<T, N> splat(T value) {
  Vec<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) result.v[j] = value;
  return result;
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
// One instruction rounds two floats into a register.
#define SINTER_PACK_PAIRS(T, instruction)                                                  \
  template <>                                                                              \
  struct Pack<T> {                                                                         \
    template <int N>                                                                       \
    SINTER_DEVICE static Vec<T, N> of(const float (&x)[N]) {                               \
      static_assert(N % 2 == 0, "vectors of 16-bit floats have an even length");           \
      Vec<T, N> result;                                                                    \
      _Pragma("unroll") for (int j = 0; j < N; j += 2) {                                   \
        u32 pair;                                                                          \
        asm(instruction " %0, %1, %2;" : "=r"(pair) : "f"(x[j + 1]), "f"(x[j]));           \
        result.v[j].bits = static_cast<u16>(pair);                                         \
        result.v[j + 1].bits = static_cast<u16>(pair >> 16);                               \
      }                                                                                    \
      return result;                                                                       \
    }                                                                                      \
  };
SINTER_PACK_PAIRS(f16, "cvt.rn.f16x2.f32")
SINTER_PACK_PAIRS(bf16, "cvt.rn.bf16x2.f32")
#undef SINTER_PACK_PAIRS
#endif

/// Rounds N values to T and writes them.
template <class T, class From, int N>
SINTER_DEVICE void store(T* p, const From (&x)[N]) {
  *reinterpret_cast<Vec<T, N>*>(p) = Pack<T>::of(x);
}
