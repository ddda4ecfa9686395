// merge_heads
// from /merge_heads (Test)
#include "math.cuh"
#include "vector.cuh"

// schedule: pointwise vector=4 unroll=1 threads=256x1
extern "C" __global__ void __launch_bounds__(256)
merge_heads(const float* __restrict__ x0, float* __restrict__ y0, i32 n0 /* 96*batch*seq */,
            i32 n1 /* seq */, i32 n2 /* 384*seq */, i32 n3 /* 32*seq */) {
  const u32 flat = blockIdx.x * 256 + threadIdx.x;
  const u32 q3 = quotient(flat, u32(8));
  const i32 i3 = i32(flat - q3 * u32(8)) * 4;
  const u32 q2 = quotient(q3, u32(12));
  const i32 i2 = i32(q3 - q2 * u32(12));
  const u32 q1 = quotient(q2, u32(n1));
  const i32 i1 = i32(q2 - q1 * u32(n1));
  const i32 i0 = i32(q1);
  if (flat < u32(n0)) {
    const Vec<float, 4> r0 = load<4>(x0 + i0 * n2 + i1 * 32 + i2 * n3 + i3);
    float t1[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v0 = widen(r0, j);
      t1[j] = v0;
    }
    store(y0 + i0 * n2 + i1 * 384 + i2 * 32 + i3, t1);
  }
}
