// mean_pool
// from /mean_pool (Test)
#include "reduce.cuh"
#include "vector.cuh"

// schedule: column vector=4 looped threads=16x32 ahead=4
extern "C" __global__ void __launch_bounds__(512)
mean_pool(const float* __restrict__ x0, float* __restrict__ y0, i32 n0 /* 96*batch */,
          i32 n1 /* seq */, i32 n2 /* 384*seq */) {
  __shared__ float s1[2048];
  const bool live = blockIdx.x * 16 + threadIdx.x < u32(n0);
  const u32 row = live ? blockIdx.x * 16 + threadIdx.x : 0;
  const u32 q1 = quotient(row, u32(96));
  const i32 i1 = i32(row - q1 * u32(96)) * 4;
  const i32 i0 = i32(q1);
  const float* p0 = x0 + i0 * n2;
  float* p1 = y0 + i0 * 384;
  float a1[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    a1[j] = Sum::identity<float>();
  }
  for (u32 first = threadIdx.y; first < u32(n1); first += 128) {
    Vec<float, 4> r0[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const u32 e = first + k * 32;
      const i32 i2 = i32(e);
      if (e < u32(n1)) {
        r0[k] = load<4>(p0 + i1 + i2 * 384);
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const u32 e = first + k * 32;
      if (e < u32(n1)) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float v0 = widen(r0[k], j);
          a1[j] = Sum::of(a1[j], v0);
        }
      }
    }
  }
  reduce_columns<Sum, 16, 32>(a1, s1);
  float t4[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float v3 = divide(a1[j], float(n1));
    t4[j] = v3;
  }
  if (live && threadIdx.y == 0) store(p1 + i1, t4);
}
