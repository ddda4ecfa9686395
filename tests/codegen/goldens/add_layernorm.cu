// add_layernorm
// from /add_layernorm (Test)
#include "reduce.cuh"
#include "vector.cuh"

// schedule: row vector=8 unroll=1 threads=64x1
// where batch*seq <= 527
extern "C" __global__ void __launch_bounds__(64)
add_layernorm(const f16* __restrict__ x0, const f16* __restrict__ x1, f16* __restrict__ y0,
              const f16* __restrict__ x2, const f16* __restrict__ x3, f16* __restrict__ y1,
              i32 n0 /* batch*seq */) {
  __shared__ float s4[2];
  __shared__ float s9[2];
  const i32 lane = threadIdx.x;
  const u32 row = blockIdx.x;
  const i32 i0 = i32(row);
  const u32 e = lane;
  const i32 i1 = i32(e) * 8;
  const f16* p0 = x0 + i0 * 384;
  const f16* p1 = x1 + i0 * 384;
  f16* p2 = y0 + i0 * 384;
  f16* p5 = y1 + i0 * 384;
  Vec<f16, 8> r0;
  Vec<f16, 8> r1;
  Vec<f16, 8> r15;
  Vec<f16, 8> r17;
  if (e < u32(48)) {
    r0 = load<8>(p0 + i1);
    r1 = load<8>(p1 + i1);
    r15 = load_kept<8>(x2 + i1);
    r17 = load_kept<8>(x3 + i1);
  }
  float h2[8];
  float a4 = Sum::identity<float>();
  if (e < u32(48)) {
    float t3[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v0 = widen(r0, j);
      const float v1 = widen(r1, j);
      h2[j] = v0 + v1;
      t3[j] = h2[j];
      a4 = Sum::of(a4, h2[j]);
    }
    store(p2 + i1, t3);
  }
  const float v4 = reduce_block<Sum, 2>(a4, s4);
  const float v6 = v4 * 0.0026041667f;
  float h7[8];
  float a9 = Sum::identity<float>();
  if (e < u32(48)) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      h7[j] = h2[j] - v6;
      const float v8 = h7[j] * h7[j];
      a9 = Sum::of(a9, v8);
    }
  }
  const float v9 = reduce_block<Sum, 2>(a9, s9);
  const float v10 = v9 * 0.0026041667f;
  const float v12 = v10 + 1.001358e-05f;
  const float v13 = inverse_square_root(v12);
  if (e < u32(48)) {
    float t19[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float v14 = h7[j] * v13;
      const float v15 = widen(r15, j);
      const float v16 = v14 * v15;
      const float v17 = widen(r17, j);
      const float v18 = v16 + v17;
      t19[j] = v18;
    }
    store(p5 + i1, t19);
  }
}

// schedule: row vector=8 unroll=2 threads=32x4
extern "C" __global__ void __launch_bounds__(128)
add_layernorm_v1(const f16* __restrict__ x0, const f16* __restrict__ x1, f16* __restrict__ y0,
                 const f16* __restrict__ x2, const f16* __restrict__ x3, f16* __restrict__ y1,
                 i32 n0 /* batch*seq */) {
  const i32 lane = threadIdx.x % 32;
  const u32 row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= u32(n0)) return;
  const i32 i0 = i32(row);
  const f16* p0 = x0 + i0 * 384;
  const f16* p1 = x1 + i0 * 384;
  f16* p2 = y0 + i0 * 384;
  f16* p5 = y1 + i0 * 384;
  Vec<f16, 8> r0[2];
  Vec<f16, 8> r1[2];
  Vec<f16, 8> r15[2];
  Vec<f16, 8> r17[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 32;
    const i32 i1 = i32(e) * 8;
    if (e < u32(48)) {
      r0[k] = load<8>(p0 + i1);
      r1[k] = load<8>(p1 + i1);
      r15[k] = load_kept<8>(x2 + i1);
      r17[k] = load_kept<8>(x3 + i1);
    }
  }
  float h2[2][8];
  float a4 = Sum::identity<float>();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 32;
    const i32 i1 = i32(e) * 8;
    if (e < u32(48)) {
      float t3[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float v0 = widen(r0[k], j);
        const float v1 = widen(r1[k], j);
        h2[k][j] = v0 + v1;
        t3[j] = h2[k][j];
        a4 = Sum::of(a4, h2[k][j]);
      }
      store(p2 + i1, t3);
    }
  }
  const float v4 = reduce_lanes<Sum, 32>(a4);
  const float v6 = v4 * 0.0026041667f;
  float h7[2][8];
  float a9 = Sum::identity<float>();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 32;
    if (e < u32(48)) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        h7[k][j] = h2[k][j] - v6;
        const float v8 = h7[k][j] * h7[k][j];
        a9 = Sum::of(a9, v8);
      }
    }
  }
  const float v9 = reduce_lanes<Sum, 32>(a9);
  const float v10 = v9 * 0.0026041667f;
  const float v12 = v10 + 1.001358e-05f;
  const float v13 = inverse_square_root(v12);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 32;
    const i32 i1 = i32(e) * 8;
    if (e < u32(48)) {
      float t19[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float v14 = h7[k][j] * v13;
        const float v15 = widen(r15[k], j);
        const float v16 = v14 * v15;
        const float v17 = widen(r17[k], j);
        const float v18 = v16 + v17;
        t19[j] = v18;
      }
      store(p5 + i1, t19);
    }
  }
}
