// SPDX-License-Identifier: Apache-2.0
// Tensor-core MMAs of a warp (sm_80 and later), fragment loads from shared memory, and asynchronous
// copies. A fragment's register holds two neighbouring 16-bit elements, the first in the low half.
// On the host (tests/codegen) the lanes of a warp exchange data to emulate the hardware.
#pragma once

#include "scalar.cuh"

// ---- registers of two 16-bit elements
/// `low` and `high`, rounded to nearest even.
template <class T>
SINTER_DEVICE u32 pack_pair(float low, float high) {
  return static_cast<u32>(narrow<T>(low).bits) | static_cast<u32>(narrow<T>(high).bits) << 16;
}
#ifdef __CUDACC__
template <>
SINTER_DEVICE u32 pack_pair<f16>(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
SINTER_DEVICE u32 pack_pair<bf16>(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif
template <class T>
SINTER_DEVICE float low_of(u32 pair) {
  return widen(T{static_cast<u16>(pair)});
}
template <class T>
SINTER_DEVICE float high_of(u32 pair) {
  return widen(T{static_cast<u16>(pair >> 16)});
}

// ---- matrix multiply-accumulate
/// d[16][8] += a[16][16] b[16][8] of one warp, T = f16 or bf16, with float32 accumulators. With g =
/// lane / 4 and t = lane % 4 * 2 a lane holds
///   a: {A[g][t..t+1], A[g+8][t..t+1], A[g][t+8..t+9], A[g+8][t+8..t+9]}
///   b: {B[t..t+1][g], B[t+8..t+9][g]}
///   d: {D[g][t], D[g][t+1], D[g+8][t], D[g+8][t+1]}
template <class T>
SINTER_DEVICE void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);

#ifdef __CUDACC__
#define SINTER_MMA(T, type)                                                           \
  template <>                                                                         \
  SINTER_DEVICE void mma_16x8x16<T>(float(&d)[4], const u32(&a)[4], u32 b0, u32 b1) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                        \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"        \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));              \
  }
SINTER_MMA(f16, "f16")
SINTER_MMA(bf16, "bf16")
#undef SINTER_MMA
#else
template <class T>
SINTER_DEVICE void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  struct Operands {
    u32 a[4], b[2];
  };
  const emulator::WarpExchange<Operands> lanes({{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    const int column = t + i % 2;
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      const u32 x = lanes[g * 4 + k % 8 / 2].a[i / 2 + k / 8 * 2];
      const u32 y = lanes[column * 4 + k % 8 / 2].b[k / 8];
      sum += k % 2 == 0 ? low_of<T>(x) * low_of<T>(y) : high_of<T>(x) * high_of<T>(y);
    }
    d[i] += sum;
  }
}
#endif

/// Accumulator type of an MMA of elements of type A.
template <class A>
struct ProductSum {
  typedef float type;
};
template <>
struct ProductSum<i8> {
  typedef i32 type;
};
template <>
struct ProductSum<u8> {
  typedef i32 type;
};
template <class A>
using SumOf = typename ProductSum<A>::type;

/// K elements that one instruction multiplies: two units of 16 bytes.
template <class A>
constexpr int kFragmentDepth = 32 / static_cast<int>(sizeof(A));

/// d[16][8] += a[16][k] b[k][8] of one warp, k = kFragmentDepth<A>; operands of 8 bits have their
/// own. A register is 4 bytes of a row; with g = lane / 4 and t = lane % 4 * 4 a lane holds of the
/// bytes of rows of A and of columns of B
///   a: {A[g][t ..], A[g+8][t ..], A[g][16 + t ..], A[g+8][16 + t ..]}, b: {B[g][t ..], B[g][16 + t
///   ..]}
/// and d as above.
template <class A, class B>
SINTER_DEVICE void mma_fragments(SumOf<A> (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
template <>
SINTER_DEVICE void mma_fragments<f16, f16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  mma_16x8x16<f16>(d, a, b0, b1);
}
template <>
SINTER_DEVICE void mma_fragments<bf16, bf16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  mma_16x8x16<bf16>(d, a, b0, b1);
}

// ---- fragments from shared memory
// ldmatrix loads 8x8 matrices of 16-bit elements; rows are 16 bytes, 16-byte aligned. Lane 8 i + r
// passes the address of row r of matrix i. Lane l gets elements [l / 4][l % 4 * 2 ..] of each, or,
// transposed, elements [l % 4 * 2 ..][l / 4]. Four matrices of a 16x16 tile (upper left, lower
// left, upper right, lower right) are an A fragment. Two of B[n][k] stored by rows, or of B[k][n]
// transposed, are b0 and b1.
#ifdef __CUDACC__
SINTER_DEVICE u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
/// A 16-byte aligned load of 16 bytes as one instruction. For a plain load of a uint4 from shared
/// memory NVRTC emits one load or four, and not always the same for the same text.
SINTER_DEVICE uint4 load_shared_x4(const void* p) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(shared_address(p))
               : "memory");
  return words;
}
/// Floats in shared memory that are loaded four at a time. The address has 32 bits, so that
/// constant offsets become those of the instructions.
struct SharedFloats {
  u32 address;
  SINTER_DEVICE explicit SharedFloats(const float* p) : address(shared_address(p)) {}
  SINTER_DEVICE void load(float (&x)[4], int at) const {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(address + static_cast<u32>(at) * 4)
                 : "memory");
  }
};
SINTER_DEVICE void load_matrix_x4(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
SINTER_DEVICE void load_matrix_x2(u32 (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
SINTER_DEVICE void load_matrix_x4_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
SINTER_DEVICE void load_matrix_x2_transposed(u32 (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
/// Transposes an 8x8 matrix that the lanes hold as load_matrix_x4() loads it.
SINTER_DEVICE u32 transpose_matrix(u32 matrix) {
  u32 result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(matrix));
  return result;
}
#else
template <int N>
SINTER_DEVICE void emulated_load_matrix(u32 (&r)[N], const void* row, bool transposed) {
  const emulator::WarpExchange<const u16*> rows(static_cast<const u16*>(row));
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  for (int i = 0; i < N; ++i) {
    const u16 low = transposed ? rows[i * 8 + t][g] : rows[i * 8 + g][t];
    const u16 high = transposed ? rows[i * 8 + t + 1][g] : rows[i * 8 + g][t + 1];
    if (reinterpret_cast<unsigned long>(rows[i * 8 + g]) % 16 != 0)
      emulator::error = "a row of a matrix in shared memory is not 16-byte aligned";
    r[i] = low | static_cast<u32>(high) << 16;
  }
}
SINTER_DEVICE u32 transpose_matrix(u32 matrix) {
  const emulator::WarpExchange<u32> lanes(matrix);
  const int g = emulator::current % 32 / 4, t = emulator::current % 4 * 2;
  const auto element = [&](int row, int column) {
    return lanes[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
  };
  return element(t, g) | element(t + 1, g) << 16;
}
SINTER_DEVICE uint4 load_shared_x4(const void* p) { return *static_cast<const uint4*>(p); }
struct SharedFloats {
  const float* first;
  explicit SharedFloats(const float* p) : first(p) {}
  void load(float (&x)[4], int at) const {
    if (reinterpret_cast<unsigned long>(first + at) % 16 != 0)
      emulator::error = "16 bytes in shared memory are not 16-byte aligned";
    memcpy(x, first + at, sizeof(x));
  }
};
SINTER_DEVICE void load_matrix_x4(u32 (&r)[4], const void* row) {
  emulated_load_matrix(r, row, false);
}
SINTER_DEVICE void load_matrix_x2(u32 (&r)[2], const void* row) {
  emulated_load_matrix(r, row, false);
}
SINTER_DEVICE void load_matrix_x4_transposed(u32 (&r)[4], const void* row) {
  emulated_load_matrix(r, row, true);
}
SINTER_DEVICE void load_matrix_x2_transposed(u32 (&r)[2], const void* row) {
  emulated_load_matrix(r, row, true);
}
#endif

// ---- copies to shared memory
/// Starts a copy of kBytes (4, 8 or 16; both addresses aligned to it) to shared memory. If not
/// `valid`, writes zeros; `from` is not read but must lie within the buffer.
template <int kBytes>
SINTER_DEVICE void cp_async(void* shared, const void* from, bool valid = true) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "what cp.async copies");
#ifdef __CUDACC__
  const u32 bytes = valid ? kBytes : 0;
  // Bypasses the L1. The L2 prefetches whole 128-byte lines, as the copies use entire rows.
  if (kBytes == 16)
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
        "l"(from), "r"(bytes)
        : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                 "l"(from), "n"(kBytes), "r"(bytes)
                 : "memory");
#else
  emulator::cp_async(shared, valid ? from : nullptr, kBytes);
#endif
}
/// Commits all copies started since the last commit as one group.
SINTER_DEVICE void cp_async_commit() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::cp_async_commit();
#endif
}
/// Waits until all but this thread's latest kGroups groups have completed; other threads see the
/// data after a barrier.
template <int kGroups>
SINTER_DEVICE void cp_async_wait() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#else
  emulator::wait_for_copies(kGroups);
#endif
}
