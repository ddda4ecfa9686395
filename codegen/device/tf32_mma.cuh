// SPDX-License-Identifier: Apache-2.0
// Tensor-core MMAs of a warp that round float32 operands to TF32 (sm_80 and later), with float32
// accumulators.
#pragma once

#include "mma.cuh"

/// Rounded to the 10 bits of TF32's mantissa, to nearest, ties away from zero. The tensor cores
/// would truncate.
SINTER_DEVICE u32 round_to_tf32(u32 bits) {
#ifdef __CUDACC__
  u32 result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "r"(bits));
  return result;
#else
  const u32 exponent = 0x7f800000u, dropped = 0x1fffu, half = 0x1000u;
  return ((bits & exponent) == exponent ? bits : bits + half) & ~dropped;
#endif
}

template <>
SINTER_DEVICE void mma_fragments<float, float>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const u32 x[4] = {round_to_tf32(a[0]), round_to_tf32(a[1]), round_to_tf32(a[2]),
                    round_to_tf32(a[3])};
  const u32 y[2] = {round_to_tf32(b0), round_to_tf32(b1)};
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
  struct Operands {
    u32 a[4], b[2];
  };
  const emulator::WarpExchange<Operands> lanes({{x[0], x[1], x[2], x[3]}, {y[0], y[1]}});
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  const auto value = [](u32 bits) {
    float result;
    memcpy(&result, &bits, sizeof(result));
    return result;
  };
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 8; ++k)
      d[i] += value(lanes[g * 4 + k % 4].a[i / 2 + k / 4 * 2]) *
              value(lanes[(t + i % 2) * 4 + k % 4].b[k / 4]);
#endif
}
