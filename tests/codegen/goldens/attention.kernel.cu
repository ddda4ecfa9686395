attention f16 batch [batch, 2] rows seq keys seq head 16 values 16 scale 0.25 fill -10000 causal 0 guard 0
  q: f16 buffer 0 offset 0 batch [96*seq, 16] row 96 column 1
  k: f16 buffer 0 offset 32 batch [96*seq, 16] row 96 column 1
  v: f16 buffer 0 offset 64 batch [96*seq, 16] row 96 column 1
  mask: bool buffer 1 offset 0 batch [seq, 0] row 0 column 1
  y: f16 buffer 2 offset 0 batch [32*seq, 16] row 32 column 1
----
// packed_heads_and_key_mask
// from layer/attention
#include "attention.cuh"

template <class Shape, bool kProgrammatic = false>
SINTER_DEVICE AttentionProblem<Shape>
packed_heads_and_key_mask_problem(u32 item, const f16* __restrict__ x0, const b8* __restrict__ x1,
                                  f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                                  i64 n2 /* 32*seq */) {
  AttentionProblem<Shape> p;
  p.rows = i32(n0);
  p.keys = i32(n0);
  const u32 tiles = (p.rows + Shape::kRows - 1) / Shape::kRows;
  p.first_row = (item % tiles) * Shape::kRows;
  u32 head = item / tiles;
  const i64 b1 = head % u32(2);
  head /= u32(2);
  const i64 b0 = head;
  p.q = x0 + b0 * n1 + b1 * 16;
  p.q_stride = 96;
  p.k = x0 + 32 + b0 * n1 + b1 * 16;
  p.k_stride = 96;
  p.v = x0 + 64 + b0 * n1 + b1 * 16;
  p.v_stride = 96;
  p.y = y + b0 * n2 + b1 * 16;
  p.y_stride = 32;
  p.mask = x1 + b0 * n0;
  p.mask_row = 0;
  p.mask_key = 1;
  p.diagonal = 0;
  p.scale = 0.25f;
  p.fill = -14426.95f;
  return p;
}

// schedule: attention rows=1x16 key_groups=2 keys=32 vector=8
// where seq <= 32, 2*batch*floordiv(seq + 15, 16) <= 264, seq <= 64
// schedule: attention rows=1x16 key_groups=2 keys=32 vector=8
// where seq <= 16
// schedule: attention rows=1x16 key_groups=2 keys=32 vector=8
// where 2*batch*floordiv(seq + 15, 16) <= 264, seq <= 64
extern "C" __global__ void __launch_bounds__(64)
packed_heads_and_key_mask(const f16* __restrict__ x0, const b8* __restrict__ x1,
                          f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                          i64 n2 /* 32*seq */) {
  typedef AttentionShape<f16, b8, /*head*/ 16, /*values*/ 16,
                         /*row warps*/ 1, /*warp rows*/ 16, /*groups*/ 2,
                         /*keys*/ 32, /*vector*/ 8, /*pairs*/ true,
                         /*mask rows*/ false, /*mask keys*/ true, /*mask pairs*/ false,
                         /*causal*/ false, /*guard*/ 0> Shape;
  static_assert(Shape::shared_bytes(1, 1) == 6144, "what the launch reserves");
  attend(packed_heads_and_key_mask_problem<Shape>(blockIdx.x, x0, x1, y, n0, n1, n2));
}

// schedule: attention rows=1x16 key_groups=4 keys=32 vector=8
// where 2*batch*floordiv(seq + 15, 16) <= 264, seq <= 512
extern "C" __global__ void __launch_bounds__(128)
packed_heads_and_key_mask_v1(const f16* __restrict__ x0, const b8* __restrict__ x1,
                             f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                             i64 n2 /* 32*seq */) {
  typedef AttentionShape<f16, b8, /*head*/ 16, /*values*/ 16,
                         /*row warps*/ 1, /*warp rows*/ 16, /*groups*/ 4,
                         /*keys*/ 32, /*vector*/ 8, /*pairs*/ true,
                         /*mask rows*/ false, /*mask keys*/ true, /*mask pairs*/ false,
                         /*causal*/ false, /*guard*/ 0> Shape;
  static_assert(Shape::shared_bytes(1, 1) == 12288, "what the launch reserves");
  attend(packed_heads_and_key_mask_problem<Shape>(blockIdx.x, x0, x1, y, n0, n1, n2));
}

// schedule: attention rows=1x16 key_groups=8 keys=32 vector=8
// where 2*batch*floordiv(seq + 15, 16) <= 264
extern "C" __global__ void __launch_bounds__(256)
packed_heads_and_key_mask_v2(const f16* __restrict__ x0, const b8* __restrict__ x1,
                             f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                             i64 n2 /* 32*seq */) {
  typedef AttentionShape<f16, b8, /*head*/ 16, /*values*/ 16,
                         /*row warps*/ 1, /*warp rows*/ 16, /*groups*/ 8,
                         /*keys*/ 32, /*vector*/ 8, /*pairs*/ true,
                         /*mask rows*/ false, /*mask keys*/ true, /*mask pairs*/ false,
                         /*causal*/ false, /*guard*/ 0> Shape;
  static_assert(Shape::shared_bytes(1, 1) == 24576, "what the launch reserves");
  attend(packed_heads_and_key_mask_problem<Shape>(blockIdx.x, x0, x1, y, n0, n1, n2));
}

// schedule: attention rows=4x16 key_groups=2 keys=32 vector=8
// where 2*batch*floordiv(seq + 63, 64) <= 132
extern "C" __global__ void __launch_bounds__(256)
packed_heads_and_key_mask_v3(const f16* __restrict__ x0, const b8* __restrict__ x1,
                             f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                             i64 n2 /* 32*seq */) {
  typedef AttentionShape<f16, b8, /*head*/ 16, /*values*/ 16,
                         /*row warps*/ 4, /*warp rows*/ 16, /*groups*/ 2,
                         /*keys*/ 32, /*vector*/ 8, /*pairs*/ true,
                         /*mask rows*/ false, /*mask keys*/ true, /*mask pairs*/ false,
                         /*causal*/ false, /*guard*/ 0> Shape;
  static_assert(Shape::shared_bytes(1, 1) == 10240, "what the launch reserves");
  attend(packed_heads_and_key_mask_problem<Shape>(blockIdx.x, x0, x1, y, n0, n1, n2));
}

// schedule: attention rows=4x16 key_groups=1 keys=64 vector=8
// where 2*batch*floordiv(seq + 63, 64) <= 2112
extern "C" __global__ void __launch_bounds__(128)
packed_heads_and_key_mask_v4(const f16* __restrict__ x0, const b8* __restrict__ x1,
                             f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                             i64 n2 /* 32*seq */) {
  typedef AttentionShape<f16, b8, /*head*/ 16, /*values*/ 16,
                         /*row warps*/ 4, /*warp rows*/ 16, /*groups*/ 1,
                         /*keys*/ 64, /*vector*/ 8, /*pairs*/ true,
                         /*mask rows*/ false, /*mask keys*/ true, /*mask pairs*/ false,
                         /*causal*/ false, /*guard*/ 0> Shape;
  static_assert(Shape::shared_bytes(1, 1) == 6144, "what the launch reserves");
  attend(packed_heads_and_key_mask_problem<Shape>(blockIdx.x, x0, x1, y, n0, n1, n2));
}

// schedule: attention rows=4x32 key_groups=1 keys=64 vector=8
extern "C" __global__ void __launch_bounds__(128)
packed_heads_and_key_mask_v5(const f16* __restrict__ x0, const b8* __restrict__ x1,
                             f16* __restrict__ y, i64 n0 /* seq */, i64 n1 /* 96*seq */,
                             i64 n2 /* 32*seq */) {
  typedef AttentionShape<f16, b8, /*head*/ 16, /*values*/ 16,
                         /*row warps*/ 4, /*warp rows*/ 32, /*groups*/ 1,
                         /*keys*/ 64, /*vector*/ 8, /*pairs*/ true,
                         /*mask rows*/ false, /*mask keys*/ true, /*mask pairs*/ false,
                         /*causal*/ false, /*guard*/ 0> Shape;
  static_assert(Shape::shared_bytes(1, 1) == 6144, "what the launch reserves");
  attend(packed_heads_and_key_mask_problem<Shape>(blockIdx.x, x0, x1, y, n0, n1, n2));
}
