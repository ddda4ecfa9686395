// SPDX-License-Identifier: Apache-2.0
// Tensor-core MMAs of a warp with 8-bit operands: integers of either sign with 32-bit accumulators
// (sm_80 and later), floats with float32 accumulators (sm_89 and later).
#pragma once

#include "float8.cuh"
#include "mma.cuh"

#ifdef __CUDACC__
#define SINTER_MMA_BYTES(A, B, Sum, letter, types)                                       \
  template <>                                                                            \
  SINTER_DEVICE void mma_fragments<A, B>(Sum(&d)[4], const u32(&a)[4], u32 b0, u32 b1) { \
    asm("mma.sync.aligned.m16n8k32.row.col." types                                       \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"               \
        : "+" letter(d[0]), "+" letter(d[1]), "+" letter(d[2]), "+" letter(d[3])         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                 \
  }
SINTER_MMA_BYTES(i8, i8, i32, "r", "s32.s8.s8.s32")
SINTER_MMA_BYTES(i8, u8, i32, "r", "s32.s8.u8.s32")
SINTER_MMA_BYTES(u8, i8, i32, "r", "s32.u8.s8.s32")
SINTER_MMA_BYTES(u8, u8, i32, "r", "s32.u8.u8.s32")
#if __CUDA_ARCH__ >= 890
SINTER_MMA_BYTES(e4m3fn, e4m3fn, float, "f", "f32.e4m3.e4m3.f32")
SINTER_MMA_BYTES(e4m3fn, e5m2, float, "f", "f32.e4m3.e5m2.f32")
SINTER_MMA_BYTES(e5m2, e4m3fn, float, "f", "f32.e5m2.e4m3.f32")
SINTER_MMA_BYTES(e5m2, e5m2, float, "f", "f32.e5m2.e5m2.f32")
#endif
#undef SINTER_MMA_BYTES
#else
/// Byte `k` (0 .. 3) of a register.
template <class A>
SINTER_DEVICE A byte_of(u32 word, int k) {
  const u8 byte = static_cast<u8>(word >> (k * 8));
  A element;
  memcpy(&element, &byte, 1);
  return element;
}
template <class A, class B>
SINTER_DEVICE void mma_fragments(SumOf<A> (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  struct Operands {
    u32 a[4], b[2];
  };
  const emulator::WarpExchange<Operands> lanes({{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 32; ++k) {
      const A x = byte_of<A>(lanes[g * 4 + k % 16 / 4].a[i / 2 + k / 16 * 2], k % 4);
      const B y = byte_of<B>(lanes[(t + i % 2) * 4 + k % 16 / 4].b[k / 16], k % 4);
      d[i] += static_cast<SumOf<A> >(widen(x)) * static_cast<SumOf<A> >(widen(y));
    }
}
#endif
