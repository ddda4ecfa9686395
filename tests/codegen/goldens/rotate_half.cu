// rotate_half
// from /rotate_half (Test)
#include "math.cuh"
#include "vector.cuh"

// schedule: pointwise vector=4 unroll=1 threads=256x1
extern "C" __global__ void __launch_bounds__(256)
rotate_half(const float* __restrict__ x0, const float* __restrict__ x1,
            const float* __restrict__ x2, float* __restrict__ y0, i64 n0 /* 16*batch*seq */,
            i64 n1 /* seq */, i64 n2 /* 64*seq */) {
  const u64 flat = u64(blockIdx.x) * 256 + threadIdx.x;
  const u64 q2 = quotient(flat, u64(16));
  const i32 i2 = i32(flat - q2 * u64(16)) * 4;
  const u64 q1 = quotient(q2, u64(n1));
  const i64 i1 = i64(q2 - q1 * u64(n1));
  const i64 i0 = i64(q1);
  if (flat < u64(n0)) {
    const Vec<float, 4> r0 = load<4>(x0 + i0 * n2 + i1 * 64 + i64(i2));
    const Vec<float, 4> r1 = load<4>(x1 + i1 * 64 + i64(i2));
    const Vec<float, 4> r4 = load_if<4>(within(i2 - 32, 32), x0 + i0 * n2 + i1 * 64 + i64(i2) - 32, narrow<float>(0.0f));
    const i64 v7 = add(i64(i2), i64(-32));
    const bool v9 = v7 >= i64(0);
    const Vec<float, 4> r11 = load_if<4>(within(i2, 32), x0 + i0 * n2 + i1 * 64 + i64(i2) + 32, narrow<float>(0.0f));
    const bool v14 = i64(i2) < i64(32);
    const Vec<float, 4> r16 = load<4>(x2 + i1 * 64 + i64(i2));
    float t19[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v0 = widen(r0, j);
      const float v1 = widen(r1, j);
      const float v2 = v0 * v1;
      const float v4 = widen(r4, j);
      const float v10 = v9 ? v4 : 0.0f;
      const float v11 = widen(r11, j);
      const float v12 = negate(v11);
      const float v15 = v14 ? v12 : v10;
      const float v16 = widen(r16, j);
      const float v17 = v15 * v16;
      const float v18 = v2 + v17;
      t19[j] = v18;
    }
    store(y0 + i0 * n2 + i1 * 64 + i64(i2), t19);
  }
}
