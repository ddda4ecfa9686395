// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM: the windows of a channels-last tensor as the left operand, without an im2col
// matrix in memory.
#pragma once

#include "warp_tile.cuh"

/// Row (image, out...) of the GEMM is a window, column (tap..., channel) its element. All sizes are
/// in elements; constant ones fold after inlining.
template <int kDims>
struct Windows {
  i32 channels;  // read at each position
  i32 pitch;     // stride between positions
  i32 in[kDims], out[kDims], kernel[kDims], stride[kDims], dilation[kDims], pad[kDims];
};

/// Offset: a type that holds every element's index in the tensor.
template <int kDims, class Offset>
struct WindowRows {
  template <class T, int kRows, int kColumns, int kStride, int kVector, int kThreads>
  struct Operand {
    static constexpr int kAcross = kColumns / kVector, kCount = kRows * kAcross;
    static constexpr int kCopies = (kCount + kThreads - 1) / kThreads;
    // A thread computes the window's address once for each of its rows, not with each copy.
    // Narrow copies are many, so that threads stay in one row or a few; with wide ones rows
    // alternate.
    static constexpr bool kKeepsRow = kVector == 1 && kThreads % kRows == 0;
    static constexpr int kOwnRows = kKeepsRow ? 1 : kCopies;
    static constexpr bool kKeepsColumn = !kKeepsRow && kThreads % kAcross == 0;
    static constexpr bool kIsAsync = kVector * sizeof(T) >= 4;

    const T* a;  // first channel read at position 0
    Windows<kDims> windows;
    Offset origin[kOwnRows];      // of the window's first element, which may be outside
    i32 corner[kOwnRows][kDims];  // position of that element

    SINTER_DEVICE static int row_of(int copy) {
      const int i = copy * kThreads + static_cast<int>(threadIdx.x);
      return kKeepsRow ? i % kRows : i / kAcross;
    }
    SINTER_DEVICE static int column_of(int copy) {
      const int thread = static_cast<int>(threadIdx.x), i = copy * kThreads + thread;
      return (kKeepsRow ? i / kRows : kKeepsColumn ? thread % kAcross : i % kAcross) * kVector;
    }

    /// Computes the windows of this thread's rows; called before copies.
    SINTER_DEVICE void find_windows(i32 first_row, i32 rows) {
#pragma unroll
      for (int own = 0; own < kOwnRows; ++own) {
        const i32 row = row_of(own);
        u32 left = static_cast<u32>(row < rows ? first_row + row : 0);
#pragma unroll
        for (int d = kDims - 1; d >= 0; --d) {
          const u32 count = static_cast<u32>(windows.out[d]);
          corner[own][d] = static_cast<i32>(left % count) * windows.stride[d] - windows.pad[d];
          left /= count;
        }
        Offset at = static_cast<Offset>(left);
#pragma unroll
        for (int d = 0; d < kDims; ++d) at = at * windows.in[d] + corner[own][d];
        origin[own] = at * windows.pitch;
        constexpr i32 kOutside = -(1 << 30);
        if (row >= rows) corner[own][0] = kOutside;
      }
    }

    /// The same element in every window.
    struct Column {
      Offset offset;  // from the window's first element
      i32 shift[kDims];
      bool valid;
    };
    SINTER_DEVICE Column find_column(i32 at, i32 end) const {
      const u32 channels = static_cast<u32>(windows.channels);
      u32 tap = static_cast<u32>(at) / channels;
      Column column;
      column.valid = at < end;
      column.offset = static_cast<Offset>(static_cast<u32>(at) - tap * channels);
#pragma unroll
      for (int d = kDims - 1; d >= 0; --d) {
        const u32 kernel = static_cast<u32>(windows.kernel[d]);
        // No modulo for the outermost dimension: past the last tap, `valid` is false.
        column.shift[d] = static_cast<i32>(d == 0 ? tap : tap % kernel) * windows.dilation[d];
        tap /= kernel;
      }
      Offset position = column.shift[0];
#pragma unroll
      for (int d = 1; d < kDims; ++d) position = position * windows.in[d] + column.shift[d];
      column.offset += position * windows.pitch;
      return column;
    }

    /// Address of element `column` in the window of own row `own`. If it is outside, `valid`
    /// becomes false and the result is the tensor's first element. A null pointer would cost a
    /// 64-bit comparison and a branch for each copy.
    SINTER_DEVICE const T* find(int own, const Column& column, bool& valid) const {
      valid = column.valid;
#pragma unroll
      for (int d = 0; d < kDims; ++d)
        valid = valid & within(corner[own][d] + column.shift[d], windows.in[d]);
      return a + (valid ? origin[own] + column.offset : Offset{0});
    }

    /// Copies columns from k on; zeros for rows past the last and for columns from `end` on.
    SINTER_DEVICE void copy(T* shared, i32, i32 k, i32 end) const {
      if constexpr (kKeepsRow) {
        copy_elements(shared, k, end);
        return;
      }
      Column column = find_column(k + column_of(0), end);
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        if (!has_copy(i)) break;
        if (i > 0 && !kKeepsColumn) column = find_column(k + column_of(i), end);
        bool valid;
        const T* from = find(i, column, valid);
        T* to = shared + row_of(i) * kStride + column_of(i);
        if constexpr (!kIsAsync)
          *to = valid ? *after_grid_wait(from) : T{0};
        else
          cp_async<kVector* static_cast<int>(sizeof(T))>(to, from, valid);
      }
    }

   private:
    /// Elements of one row. Without asynchronous copies, several loads are in flight before the
    /// first store; all of them would need too many registers.
    SINTER_DEVICE void copy_elements(T* shared, i32 k, i32 end) const {
      if constexpr (kIsAsync) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          if (!has_copy(i)) break;
          bool valid;
          const T* from = find(0, find_column(k + column_of(i), end), valid);
          cp_async<sizeof(T)>(shared + row_of(i) * kStride + column_of(i), from, valid);
        }
        return;
      }
      constexpr int kAtOnce = kCopies < 8 ? kCopies : 8;
#pragma unroll 1
      for (int first = 0; first < kCopies; first += kAtOnce) {
        T values[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          bool valid;
          const T* from = find(0, find_column(k + column_of(first + i), end), valid);
          values[i] = valid ? *after_grid_wait(from) : T{0};
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (first + i < kCopies && has_copy(first + i))
            shared[row_of(first + i) * kStride + column_of(first + i)] = values[i];
      }
    }
    SINTER_DEVICE static bool has_copy(int copy) {
      return kCount % kThreads == 0 || copy * kThreads + static_cast<int>(threadIdx.x) < kCount;
    }
  };
};
