// masked_softmax
// from /masked_softmax (Test)
#include "reduce.cuh"
#include "vector.cuh"

// schedule: row vector=4 unroll=1 threads=32x4
// where seq % 4 == 0, seq <= 128
extern "C" __global__ void __launch_bounds__(128)
masked_softmax(const i64* __restrict__ x0, const float* __restrict__ x1, float* __restrict__ y0,
               i32 n0 /* 12*batch*seq */, i32 n1 /* 12*seq */, i32 n2 /* floordiv(seq, 4) */,
               i32 n3 /* seq */, i32 n4 /* 12*seq*seq */) {
  const i32 lane = threadIdx.x % 32;
  const u32 row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= u32(n0)) return;
  const u32 q1 = quotient(row, u32(n1));
  const i32 i1 = i32(row - q1 * u32(n1));
  const i32 i0 = i32(q1);
  const u32 e = lane;
  const i32 i2 = i32(e) * 4;
  const i64* p0 = x0 + i0 * n3;
  const float* p1 = x1 + i0 * n4 + i1 * n3;
  float* p2 = y0 + i0 * n4 + i1 * n3;
  Vec<i64, 4> r0;
  Vec<float, 4> r4;
  if (e < u32(n2)) {
    r0 = load<4>(p0 + i2);
    r4 = load<4>(p1 + i2);
  }
  float h5[4];
  float a6 = Max::identity<float>();
  if (e < u32(n2)) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 v0 = widen(r0, j);
      const bool v2 = v0 == i64(0);
      const float v4 = widen(r4, j);
      h5[j] = v2 ? float(-infinity()) : v4;
      a6 = Max::of(a6, h5[j]);
    }
  }
  const float v6 = reduce_lanes<Max, 32>(a6);
  float h8[4];
  float a9 = Sum::identity<float>();
  if (e < u32(n2)) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v7 = h5[j] - v6;
      h8[j] = exponential(v7);
      a9 = Sum::of(a9, h8[j]);
    }
  }
  const float v9 = reduce_lanes<Sum, 32>(a9);
  const float d9 = reciprocal(v9);
  if (e < u32(n2)) {
    float t11[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v10 = h8[j] * d9;
      t11[j] = v10;
    }
    store(p2 + i2, t11);
  }
}

// schedule: row vector=4 unroll=3 threads=32x4
// where seq % 4 == 0, seq <= 384
extern "C" __global__ void __launch_bounds__(128)
masked_softmax_v1(const i64* __restrict__ x0, const float* __restrict__ x1,
                  float* __restrict__ y0, i32 n0 /* 12*batch*seq */, i32 n1 /* 12*seq */,
                  i32 n2 /* floordiv(seq, 4) */, i32 n3 /* seq */, i32 n4 /* 12*seq*seq */) {
  const i32 lane = threadIdx.x % 32;
  const u32 row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= u32(n0)) return;
  const u32 q1 = quotient(row, u32(n1));
  const i32 i1 = i32(row - q1 * u32(n1));
  const i32 i0 = i32(q1);
  const i64* p0 = x0 + i0 * n3;
  const float* p1 = x1 + i0 * n4 + i1 * n3;
  float* p2 = y0 + i0 * n4 + i1 * n3;
  Vec<i64, 4> r0[3];
  Vec<float, 4> r4[3];
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const u32 e = lane + k * 32;
    const i32 i2 = i32(e) * 4;
    if (e < u32(n2)) {
      r0[k] = load<4>(p0 + i2);
      r4[k] = load<4>(p1 + i2);
    }
  }
  float h5[3][4];
  float a6 = Max::identity<float>();
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const u32 e = lane + k * 32;
    if (e < u32(n2)) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i64 v0 = widen(r0[k], j);
        const bool v2 = v0 == i64(0);
        const float v4 = widen(r4[k], j);
        h5[k][j] = v2 ? float(-infinity()) : v4;
        a6 = Max::of(a6, h5[k][j]);
      }
    }
  }
  const float v6 = reduce_lanes<Max, 32>(a6);
  float h8[3][4];
  float a9 = Sum::identity<float>();
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const u32 e = lane + k * 32;
    if (e < u32(n2)) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v7 = h5[k][j] - v6;
        h8[k][j] = exponential(v7);
        a9 = Sum::of(a9, h8[k][j]);
      }
    }
  }
  const float v9 = reduce_lanes<Sum, 32>(a9);
  const float d9 = reciprocal(v9);
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const u32 e = lane + k * 32;
    const i32 i2 = i32(e) * 4;
    if (e < u32(n2)) {
      float t11[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v10 = h8[k][j] * d9;
        t11[j] = v10;
      }
      store(p2 + i2, t11);
    }
  }
}

// schedule: row vector=4 unroll=1 threads=256x1
// where seq % 4 == 0
extern "C" __global__ void __launch_bounds__(256)
masked_softmax_v2(const i64* __restrict__ x0, const float* __restrict__ x1,
                  float* __restrict__ y0, i32 n0 /* 12*batch*seq */, i32 n1 /* 12*seq */,
                  i32 n2 /* floordiv(seq, 4) */, i32 n3 /* seq */, i32 n4 /* 12*seq*seq */) {
  __shared__ float s6[8];
  __shared__ float s9[8];
  const i32 lane = threadIdx.x;
  const u32 row = blockIdx.x;
  const u32 q1 = quotient(row, u32(n1));
  const i32 i1 = i32(row - q1 * u32(n1));
  const i32 i0 = i32(q1);
  const u32 e = lane;
  const i32 i2 = i32(e) * 4;
  const i64* p0 = x0 + i0 * n3;
  const float* p1 = x1 + i0 * n4 + i1 * n3;
  float* p2 = y0 + i0 * n4 + i1 * n3;
  Vec<i64, 4> r0;
  Vec<float, 4> r4;
  if (e < u32(n2)) {
    r0 = load<4>(p0 + i2);
    r4 = load<4>(p1 + i2);
  }
  float h5[4];
  float a6 = Max::identity<float>();
  if (e < u32(n2)) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 v0 = widen(r0, j);
      const bool v2 = v0 == i64(0);
      const float v4 = widen(r4, j);
      h5[j] = v2 ? float(-infinity()) : v4;
      a6 = Max::of(a6, h5[j]);
    }
  }
  const float v6 = reduce_block<Max, 8>(a6, s6);
  float h8[4];
  float a9 = Sum::identity<float>();
  if (e < u32(n2)) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v7 = h5[j] - v6;
      h8[j] = exponential(v7);
      a9 = Sum::of(a9, h8[j]);
    }
  }
  const float v9 = reduce_block<Sum, 8>(a9, s9);
  const float d9 = reciprocal(v9);
  if (e < u32(n2)) {
    float t11[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v10 = h8[j] * d9;
      t11[j] = v10;
    }
    store(p2 + i2, t11);
  }
}

// schedule: row vector=1 unroll=14 threads=32x4
// where seq <= 448
extern "C" __global__ void __launch_bounds__(128)
masked_softmax_v3(const i64* __restrict__ x0, const float* __restrict__ x1,
                  float* __restrict__ y0, i32 n0 /* 12*batch*seq */, i32 n1 /* 12*seq */,
                  i32 n2 /* floordiv(seq, 4) */, i32 n3 /* seq */, i32 n4 /* 12*seq*seq */) {
  const i32 lane = threadIdx.x % 32;
  const u32 row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= u32(n0)) return;
  const u32 q1 = quotient(row, u32(n1));
  const i32 i1 = i32(row - q1 * u32(n1));
  const i32 i0 = i32(q1);
  const i64* p0 = x0 + i0 * n3;
  const float* p1 = x1 + i0 * n4 + i1 * n3;
  float* p2 = y0 + i0 * n4 + i1 * n3;
  i64 r0[14];
  float r4[14];
#pragma unroll
  for (int k = 0; k < 14; ++k) {
    const u32 e = lane + k * 32;
    const i32 i2 = i32(e);
    if (e < u32(n3)) {
      r0[k] = p0[i2];
      r4[k] = p1[i2];
    }
  }
  float h5[14];
  float a6 = Max::identity<float>();
#pragma unroll
  for (int k = 0; k < 14; ++k) {
    const u32 e = lane + k * 32;
    if (e < u32(n3)) {
      const i64 v0 = widen(r0[k]);
      const bool v2 = v0 == i64(0);
      const float v4 = widen(r4[k]);
      h5[k] = v2 ? float(-infinity()) : v4;
      a6 = Max::of(a6, h5[k]);
    }
  }
  const float v6 = reduce_lanes<Max, 32>(a6);
  float h8[14];
  float a9 = Sum::identity<float>();
#pragma unroll
  for (int k = 0; k < 14; ++k) {
    const u32 e = lane + k * 32;
    if (e < u32(n3)) {
      const float v7 = h5[k] - v6;
      h8[k] = exponential(v7);
      a9 = Sum::of(a9, h8[k]);
    }
  }
  const float v9 = reduce_lanes<Sum, 32>(a9);
  const float d9 = reciprocal(v9);
#pragma unroll
  for (int k = 0; k < 14; ++k) {
    const u32 e = lane + k * 32;
    const i32 i2 = i32(e);
    if (e < u32(n3)) {
      const float v10 = h8[k] * d9;
      p2[i2] = narrow<float>(v10);
    }
  }
}

// schedule: row vector=1 unroll=2 threads=256x1
extern "C" __global__ void __launch_bounds__(256)
masked_softmax_v4(const i64* __restrict__ x0, const float* __restrict__ x1,
                  float* __restrict__ y0, i32 n0 /* 12*batch*seq */, i32 n1 /* 12*seq */,
                  i32 n2 /* floordiv(seq, 4) */, i32 n3 /* seq */, i32 n4 /* 12*seq*seq */) {
  __shared__ float s6[8];
  __shared__ float s9[8];
  const i32 lane = threadIdx.x;
  const u32 row = blockIdx.x;
  const u32 q1 = quotient(row, u32(n1));
  const i32 i1 = i32(row - q1 * u32(n1));
  const i32 i0 = i32(q1);
  const i64* p0 = x0 + i0 * n3;
  const float* p1 = x1 + i0 * n4 + i1 * n3;
  float* p2 = y0 + i0 * n4 + i1 * n3;
  i64 r0[2];
  float r4[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 256;
    const i32 i2 = i32(e);
    if (e < u32(n3)) {
      r0[k] = p0[i2];
      r4[k] = p1[i2];
    }
  }
  float h5[2];
  float a6 = Max::identity<float>();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 256;
    if (e < u32(n3)) {
      const i64 v0 = widen(r0[k]);
      const bool v2 = v0 == i64(0);
      const float v4 = widen(r4[k]);
      h5[k] = v2 ? float(-infinity()) : v4;
      a6 = Max::of(a6, h5[k]);
    }
  }
  const float v6 = reduce_block<Max, 8>(a6, s6);
  float h8[2];
  float a9 = Sum::identity<float>();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 256;
    if (e < u32(n3)) {
      const float v7 = h5[k] - v6;
      h8[k] = exponential(v7);
      a9 = Sum::of(a9, h8[k]);
    }
  }
  const float v9 = reduce_block<Sum, 8>(a9, s9);
  const float d9 = reciprocal(v9);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const u32 e = lane + k * 256;
    const i32 i2 = i32(e);
    if (e < u32(n3)) {
      const float v10 = h8[k] * d9;
      p2[i2] = narrow<float>(v10);
    }
  }
}
