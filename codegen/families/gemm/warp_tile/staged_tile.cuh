// SPDX-License-Identifier: Apache-2.0
// Operands of a GEMM tile that stream through a multistage pipeline in shared memory, for any
// mainloop that reads them there.
#pragma once

#include "cluster.cuh"
#include "mma.cuh"
#include "vector.cuh"

/// Copies kRows x kColumns elements by kThreads threads; elements outside [rows) x [columns) become
/// zero.
template <int kRows, int kColumns, int kStride, int kVector, int kThreads, class T>
SINTER_DEVICE void copy_tile(T* shared, const T* from, i64 stride, i32 rows, i32 columns) {
  constexpr int kAcross = kColumns / kVector, kCount = kRows * kAcross;
#pragma unroll
  for (int first = 0; first < kCount; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kCount % kThreads != 0 && i >= kCount) break;
    const int row = i / kAcross, column = i % kAcross * kVector;
    const bool valid = row < rows && column < columns;
    T* to = shared + row * kStride + column;
    const T* source = valid ? from + row * stride + column : from;
    if constexpr (kVector * sizeof(T) < 4)
      *to = valid ? *after_grid_wait(source) : T{0};
    else
      cp_async<kVector* static_cast<int>(sizeof(T))>(to, source, valid);
  }
}

/// Transposed copy: element (row, column) is `from`'s (column, row), read kVector of its
/// columns at a time. Synchronous stores of single elements, which other threads see after a
/// barrier.
template <int kRows, int kColumns, int kStride, int kVector, int kThreads, class T>
SINTER_DEVICE void copy_transposed(T* shared, const T* from, i64 stride, i32 rows, i32 columns) {
  constexpr int kAcross = kRows / kVector, kCount = kColumns * kAcross;
#pragma unroll 4
  for (int first = 0; first < kCount; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kCount % kThreads != 0 && i >= kCount) break;
    const int column = i / kAcross, row = i % kAcross * kVector;
    const bool valid = row < rows && column < columns;
    const T* source = valid ? from + column * stride + row : from;
    Vec<T, kVector> items = splat<kVector>(T{0});
    if (valid) items = load<kVector>(after_grid_wait(source));
#pragma unroll
    for (int j = 0; j < kVector; ++j) shared[(row + j) * kStride + column] = items.v[j];
  }
}

/// A left operand with row stride `stride_a`; `a` is the tile's first row, at k = 0. Other kinds
/// are in separate headers (implicit_gemm.cuh).
struct DenseRows {
  template <class T, int kRows, int kColumns, int kStride, int kVector, int kThreads>
  struct Operand {
    const T* a;
    i64 stride_a;

    /// Copies columns from k on; zeros for rows from `rows` on and columns from `end` on.
    SINTER_DEVICE void copy(T* shared, i32 rows, i32 k, i32 end) const {
      copy_tile<kRows, kColumns, kStride, kVector, kThreads>(shared, a + (k < end ? k : 0),
                                                             stride_a, rows, end - k);
    }
  };
};

/// Rows of `a` that `gathered`, in shared memory, names.
struct GatheredRows {
  template <class T, int kRows, int kColumns, int kStride, int kVector, int kThreads>
  struct Operand {
    const T* a;
    i64 stride_a;
    const i32* gathered;

    SINTER_DEVICE void copy(T* shared, i32 rows, i32 k, i32 end) const {
      constexpr int kAcross = kColumns / kVector, kCount = kRows * kAcross;
#pragma unroll
      for (int first = 0; first < kCount; first += kThreads) {
        const int i = first + static_cast<int>(threadIdx.x);
        if (kCount % kThreads != 0 && i >= kCount) break;
        const int row = i / kAcross, column = i % kAcross * kVector;
        const bool valid = row < rows && k + column < end;
        T* to = shared + row * kStride + column;
        const T* source = valid ? a + gathered[row] * stride_a + k + column : a;
        if constexpr (kVector * sizeof(T) < 4)
          *to = valid ? *after_grid_wait(source) : T{0};
        else
          cp_async<kVector* static_cast<int>(sizeof(T))>(to, source, valid);
      }
    }
  };
};

/// Block scales of both operands, one for each 128 k's: for each row, [count, blocks], and for each
/// `group` columns, [groups, blocks].
template <bool kScaled>
struct BlockScales {
  static constexpr int kDepth = 128;
  const float *rows, *columns;
  i32 count, blocks, groups, group;
  i32 first_row, first_column;  // of the tile

  /// The scale of a row of the tile, and of a column's group; indices past the end use the last
  /// scale.
  SINTER_DEVICE float of_row(i32 row, i32 block) const {
    return rows[static_cast<i64>(minimum(first_row + row, count - 1)) * blocks + block];
  }
  SINTER_DEVICE float of_column(i32 column, i32 block) const {
    return columns[minimum((first_column + column) / group, groups - 1) * blocks + block];
  }
};
template <>
struct BlockScales<false> {};

/// A tile's operands, kK of k at a time. kRowsAreK: b[k][n] with n contiguous; otherwise b[n][k],
/// which 8-bit b always is in shared memory. Left reads a[m][k]. kVectorA, kVectorB: elements of
/// one copy (4 to 16 bytes, or one element); rows are aligned to it and a multiple of it.
template <class A, class B, int kM, int kN, int kK, int kThreadCount, int kStages, bool kRowsAreK,
          int kVectorA, int kVectorB, class Left, bool kScaled>
struct StagedTile {
  static constexpr int kUnit = 16 / static_cast<int>(sizeof(A));  // elements in 16 bytes
  static constexpr int kThreads = kThreadCount;
  static_assert(sizeof(A) == sizeof(B), "fragments of both operands are as deep");
  static_assert(kStages >= 2, "one stage is read while another is filled");

  // Row pitch is an odd number of 16-byte units: eight rows have no bank conflicts. With rows of k,
  // four-byte elements are also read in eight columns of four adjacent rows.
  static constexpr int odd_units(int elements, int unit = kUnit) {
    return (elements / unit | 1) * unit;
  }
  static constexpr int kStrideA = odd_units(kK);
  static constexpr bool kBByRows = kRowsAreK && sizeof(B) > 1;  // in shared memory
  static constexpr int kRowsB = kBByRows ? kK : kN, kColumnsB = kBByRows ? kN : kK;
  static constexpr int kStrideB = odd_units(kColumnsB, kBByRows ? 8 : kUnit);
  static constexpr int kStage = kM * kStrideA + kRowsB * kStrideB;  // elements
  static constexpr int kStageBytes = kStages * kStage * static_cast<int>(sizeof(A));

  /// Operands of a block: `b` is the tile's first column, at k = 0.
  struct Operands : Left::template Operand<A, kM, kK, kStrideA, kVectorA, kThreads> {
    const B* b;
    i64 stride_b;
    i32 rows, columns;  // remaining from the tile on; may exceed the tile
    i32 begin, end;     // of k
    BlockScales<kScaled> scales;
  };

  SINTER_DEVICE static A* stage_of(unsigned char* shared, int stage) {
    return reinterpret_cast<A*>(shared) + stage * kStage;
  }
  SINTER_DEVICE static const B* b_of(const A* stage) {
    return reinterpret_cast<const B*>(stage + kM * kStrideA);
  }
  SINTER_DEVICE static void copy_a(const Operands& x, A* stage, i32 k) {
    x.copy(stage, x.rows, k, x.end);
  }
  SINTER_DEVICE static void copy_b(const Operands& x, A* stage, i32 k) {
    B* shared = reinterpret_cast<B*>(stage + kM * kStrideA);
    const i32 at = k < x.end ? k : 0;
    if constexpr (kRowsAreK && !kBByRows)
      copy_transposed<kN, kK, kStrideB, kVectorB, kThreads>(shared, x.b + at * x.stride_b,
                                                            x.stride_b, x.columns, x.end - k);
    else if constexpr (kRowsAreK)
      copy_tile<kK, kN, kStrideB, kVectorB, kThreads>(shared, x.b + at * x.stride_b, x.stride_b,
                                                      x.end - k, x.columns);
    else
      copy_tile<kN, kK, kStrideB, kVectorB, kThreads>(shared, x.b + at, x.stride_b, x.columns,
                                                      x.end - k);
  }

  SINTER_DEVICE static int count_steps(const Operands& x) {
    return x.end > x.begin ? (x.end - x.begin + kK - 1) / kK : 0;
  }

  /// Starts the first copies. `kProgrammatic`: the kernel may start before the preceding one ends.
  /// Operand b does not depend on that, so that its copies start before the wait.
  template <bool kProgrammatic>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x) {
    begin<kProgrammatic>(shared, x, [] { grid_dependency_wait(); });
  }
  /// `ready`: called, if kProgrammatic, before operand a is copied.
  template <bool kProgrammatic, class Ready>
  SINTER_DEVICE static void begin(unsigned char* shared, const Operands& x, const Ready& ready) {
    const int steps = count_steps(x);
    if (kProgrammatic) {
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s)
        if (s < steps) copy_b(x, stage_of(shared, s), x.begin + s * kK);
      ready();
    }
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps) {
        if (!kProgrammatic) copy_b(x, stage_of(shared, s), x.begin + s * kK);
        copy_a(x, stage_of(shared, s), x.begin + s * kK);
      }
      cp_async_commit();
    }
  }

  /// After begin(): calls `multiply` with each stage and where it begins along k. All threads have
  /// left the stages then.
  template <class Multiply>
  SINTER_DEVICE static void run(unsigned char* shared, const Operands& x,
                                const Multiply& multiply) {
    const int steps = count_steps(x);
    for (int s = 0; s < steps; ++s) {
      cp_async_wait<kStages - 2>();
      __syncthreads();  // stage s is visible to all threads; all have left the stage that is filled
                        // next
      const int next = s + kStages - 1;
      if (next < steps) {
        A* stage = stage_of(shared, next % kStages);
        copy_b(x, stage, x.begin + next * kK);
        copy_a(x, stage, x.begin + next * kK);
      }
      cp_async_commit();
      multiply(stage_of(shared, s % kStages), x.begin + s * kK);
    }
    cp_async_wait<0>();
    __syncthreads();
  }
};
