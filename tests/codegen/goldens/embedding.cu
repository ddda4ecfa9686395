// embedding
// from /embedding (Test)
#include "math.cuh"
#include "vector.cuh"

// schedule: pointwise vector=4 unroll=1 threads=256x1
extern "C" __global__ void __launch_bounds__(256)
embedding(const i64* __restrict__ x0, const float* __restrict__ x1, float* __restrict__ y0,
          i32 n0 /* 96*batch*seq */) {
  const u32 flat = blockIdx.x * 256 + threadIdx.x;
  const u32 q1 = quotient(flat, u32(96));
  const i32 i1 = i32(flat - q1 * u32(96)) * 4;
  const i32 i0 = i32(q1);
  if (flat < u32(n0)) {
    const i64 v0 = widen(x0[i0]);
    const Vec<float, 4> r1 = load<4>(x1 + i1 + wrap_index(v0, 30522) * 384);
    float t2[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v1 = widen(r1, j);
      t2[j] = v1;
    }
    store(y0 + i0 * 384 + i1, t2);
  }
}
