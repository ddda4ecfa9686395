// mean_pool
// from /mean_pool (Test)
#include "reduce.cuh"

// schedule: column vector=1 looped threads=32x16
extern "C" __global__ void __launch_bounds__(512)
mean_pool(const float* __restrict__ x0, float* __restrict__ y0, i32 n0 /* 384*batch */,
          i32 n1 /* seq */, i32 n2 /* 384*seq */) {
  __shared__ float s1[512];
  const bool live = blockIdx.x * 32 + threadIdx.x < u32(n0);
  const u32 row = live ? blockIdx.x * 32 + threadIdx.x : 0;
  const u32 q1 = quotient(row, u32(384));
  const i32 i1 = i32(row - q1 * u32(384));
  const i32 i0 = i32(q1);
  const float* p0 = x0 + i0 * n2 + i1;
  float a1 = Sum::identity<float>();
  for (u32 e = threadIdx.y; e < u32(n1); e += 16) {
    const i32 i2 = i32(e);
    const float v0 = widen(p0[i2 * 384]);
    a1 = Sum::of(a1, v0);
  }
  const float v1 = reduce_column<Sum, 32, 16>(a1, s1);
  const float v3 = divide(v1, float(n1));
  if (live && threadIdx.y == 0) y0[i0 * 384 + i1] = narrow<float>(v3);
}
