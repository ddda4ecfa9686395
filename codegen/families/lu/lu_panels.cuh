// SPDX-License-Identifier: Apache-2.0
// LU factors of large matrices: copies in global memory, which stay in the L2. A cluster takes one
// panel by panel. One block factors the panel in shared memory, then all blocks update the columns
// behind it.
#pragma once

#include "cluster.cuh"
#include "lu.cuh"

/// Large matrices, kWidth columns at a time, by blocks of kThreads threads.
template <class C, int kWidth>
struct LargeLu {
  static constexpr int kThreads = 512, kRows = 128, kColumns = 64;

  /// Shared memory of a block, in front of the panel.
  struct Memory {
    PivotSearch<C, kThreads> search;
    C corner[kWidth][kWidth];      // of the panel: L and U
    C top[2 * kWidth][kColumns];   // rows of some columns; rows that move
    C factors[kRows][kWidth + 1];  // of the rows below
    i32 swapped[kWidth];
    i32 source[2 * kWidth];  // of each moved row; -1: it stays
  };
  /// Integers of a matrix in global memory: where its rows were, the panel's swapped rows, and
  /// whether it has an inverse.
  SINTER_DEVICE static i64 integers(int n) { return n + kWidth + 1; }

  /// rows[r] -= factors[r] * top for begin <= r < end, of kColumns columns, of which `columns` are
  /// there; factors are the kWidth numbers at `from` + r * pitch, of which `width` are there.
  SINTER_DEVICE static void subtract(Memory& m, const C* from, C* rows, i64 pitch, int begin,
                                     int end, int width, int columns) {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int first = begin; first < end; first += kRows) {
      for (int e = threadIdx.x; e < kRows * kWidth; e += kThreads) {
        const int r = e / kWidth, k = e % kWidth;
        m.factors[r][k] = first + r < end && k < width ? from[(first + r) * pitch + k] : C(0);
      }
      __syncthreads();
      C sum[4][4] = {};
#pragma unroll 4
      for (int k = 0; k < kWidth; ++k) {
        C left[4], right[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) left[i] = m.factors[y + 32 * i][k];
#pragma unroll
        for (int j = 0; j < 4; ++j) right[j] = m.top[k][x + 16 * j];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = first + y + 32 * i;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (r < end && x + 16 * j < columns) rows[r * pitch + x + 16 * j] -= sum[i][j];
      }
      __syncthreads();
    }
  }

  /// The corner of L and U at row and column `first`; behind the last row it is the identity.
  SINTER_DEVICE static void load_corner(Memory& m, const C* a, int n, int first) {
    for (int e = threadIdx.x; e < kWidth * kWidth; e += kThreads) {
      const int i = e / kWidth, k = e % kWidth;
      const bool is_there = first + i < n && first + k < n;
      m.corner[i][k] = is_there ? a[i64(first + i) * n + first + k] : C(i == k ? 1 : 0);
    }
  }
  /// top = L^-1 top; a thread for each column.
  SINTER_DEVICE static void solve_lower(Memory& m) {
    if (threadIdx.x < kColumns) {
      C u[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) u[i] = m.top[i][threadIdx.x];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        m.top[k][threadIdx.x] = u[k];
#pragma unroll
        for (int i = k + 1; i < kWidth; ++i) u[i] -= m.corner[i][k] * u[k];
      }
    }
    __syncthreads();
  }
  /// top = U^-1 top
  SINTER_DEVICE static void solve_upper(Memory& m) {
    if (threadIdx.x < kColumns) {
      C u[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) u[i] = m.top[i][threadIdx.x];
#pragma unroll
      for (int k = kWidth - 1; k >= 0; --k) {
        u[k] /= m.corner[k][k];
        m.top[k][threadIdx.x] = u[k];
#pragma unroll
        for (int i = 0; i < k; ++i) u[i] -= m.corner[i][k] * u[k];
      }
    }
    __syncthreads();
  }

  /// Which rows the panel at `first` moves: number i < kWidth is row `first` + i, and number kWidth
  /// + k is the row that row k changed places with.
  SINTER_DEVICE static void find_moves(Memory& m, const i32* swapped, int width) {
    if (threadIdx.x < kWidth)
      m.swapped[threadIdx.x] = threadIdx.x < width ? swapped[threadIdx.x] : 0;
    __syncthreads();
    if (threadIdx.x < 2 * kWidth) {
      const int number = threadIdx.x;
      const int to = moved_to(m, number);
      int row = to;
      for (int k = width - 1; k >= 0; --k) {
        const int other = m.swapped[k];
        row = row == k ? other : row == other ? k : row;
      }
      const bool is_there =
          number < kWidth ? number < width : number - kWidth < width && to >= width;
      m.source[number] = is_there ? row : -1;
    }
    __syncthreads();
  }
  SINTER_DEVICE static int moved_to(const Memory& m, int number) {
    return number < kWidth ? number : m.swapped[number - kWidth];
  }
  /// Moves rows of kColumns columns at `rows`, of which `columns` are there. The first kWidth stay
  /// in `top`, and are not written.
  SINTER_DEVICE static void move_rows(Memory& m, C* rows, i64 pitch, int columns) {
    for (int e = threadIdx.x; e < 2 * kWidth * kColumns; e += kThreads) {
      const int number = e / kColumns, j = e % kColumns, row = m.source[number];
      m.top[number][j] = row >= 0 && j < columns ? rows[row * pitch + j] : C(0);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < kWidth * kColumns; e += kThreads) {
      const int number = kWidth + e / kColumns, j = e % kColumns;
      if (m.source[number] >= 0 && j < columns)
        rows[moved_to(m, number) * pitch + j] = m.top[number][j];
    }
    __syncthreads();
  }
  SINTER_DEVICE static void store_top(const Memory& m, C* rows, i64 pitch, int width, int columns) {
    for (int e = threadIdx.x; e < kWidth * kColumns; e += kThreads) {
      const int i = e / kColumns, j = e % kColumns;
      if (i < width && j < columns) rows[i * pitch + j] = m.top[i][j];
    }
    __syncthreads();
  }

  /// Divides the columns of L by their pivots, and stores the panel, which may lie in its place.
  /// The diagonal, which all read, does not change.
  SINTER_DEVICE static void store_panel(const C* panel, i64 pitch, C* to, i64 to_pitch, int rows,
                                        int width) {
    for (int e = threadIdx.x; e < rows * kWidth; e += kThreads) {
      const int i = e / kWidth, k = e % kWidth;
      if (k >= width) continue;
      const C value = panel[i * pitch + k], pivot = panel[k * pitch + k];
      to[i * to_pitch + k] = i <= k ? value : pivot == C(0) ? C(0) : value / pivot;
    }
  }

  /// Factors matrix `matrix` of those at `x` into `a`, by a cluster of kBlocks blocks, this one
  /// being `rank`; `panel_rows` fit into shared memory behind Memory. With kInverse, rows change
  /// places in the columns in front, too; else y gets the determinants.
  template <class T, bool kInverse, int kBlocks>
  SINTER_DEVICE static void factor(const T* x, C* a, i32* numbers, T* y, i64 matrix, int rank,
                                   int n, int panel_rows) {
    SINTER_DYNAMIC_SHARED(memory);
    auto& m = *reinterpret_cast<Memory*>(memory);
    C* const panel = reinterpret_cast<C*>(&m + 1);
    constexpr int kPitch = kWidth + 1;
    x += matrix * n * n;
    a += matrix * n * n;
    i32* const order = numbers + matrix * integers(n);
    i32* const swapped = order + n;
    for (i64 e = rank * kThreads + threadIdx.x; e < i64(n) * n; e += kBlocks * kThreads)
      a[e] = static_cast<C>(widen(x[e]));
    if (kInverse && rank == 0)
      for (int i = threadIdx.x; i < n; i += kThreads) order[i] = i;
    join<kBlocks>();
    PivotProduct product;
    for (int first = 0; first < n; first += kWidth) {
      const int width = least(kWidth, n - first), rows = n - first;
      C* const corner = a + i64(first) * n + first;
      if (rank == 0) {
        if (rows <= panel_rows) {
          for (int e = threadIdx.x; e < rows * kWidth; e += kThreads)
            if (e % kWidth < width)
              panel[e / kWidth * kPitch + e % kWidth] = corner[i64(e / kWidth) * n + e % kWidth];
          __syncthreads();
          eliminate_columns<C, kThreads>(panel, kPitch, rows, width, swapped, m.search, product);
          store_panel(panel, kPitch, corner, n, rows, width);
        } else {
          eliminate_columns<C, kThreads>(corner, n, rows, width, swapped, m.search, product);
          store_panel(corner, n, corner, n, rows, width);
        }
      }
      join<kBlocks>();
      find_moves(m, swapped, width);
      load_corner(m, a, n, first);
      if (kInverse && rank == 0) {
        i32* const moved = order + first;
        const int number = threadIdx.x, from = number < 2 * kWidth ? m.source[number] : -1;
        const i32 value = from >= 0 ? moved[from] : 0;
        __syncthreads();
        if (from >= 0) moved[moved_to(m, number)] = value;
      }
      __syncthreads();
      const int behind = n - first - width;
      const int right = (behind + kColumns - 1) / kColumns;
      const int left = kInverse ? (first + kColumns - 1) / kColumns : 0;
      for (int chunk = rank; chunk < right + left; chunk += kBlocks) {
        const bool is_left = chunk >= right;
        const int column = is_left ? (chunk - right) * kColumns : first + width + chunk * kColumns;
        const int columns = least(kColumns, (is_left ? first : n) - column);
        C* const own = a + i64(first) * n + column;
        move_rows(m, own, n, columns);
        if (!is_left) solve_lower(m);
        store_top(m, own, n, width, columns);
        if (!is_left) subtract(m, corner, own, n, width, rows, width, columns);
      }
      join<kBlocks>();
    }
    if (rank != 0 || threadIdx.x != 0) return;
    if (kInverse)
      swapped[kWidth] = product.is_regular ? 1 : 0;
    else
      y[matrix] = narrow<T>(static_cast<C>(product.value));
  }

  /// All blocks of the matrix have come, and see what the others wrote.
  template <int kBlocks>
  SINTER_DEVICE static void join() {
    __syncthreads();
    if (kBlocks == 1) return;
#ifdef __CUDACC__
    __threadfence();  // what lies in global memory, too
#endif
    cluster_barrier();
#ifdef __CUDACC__
    __threadfence();
#endif
  }

  /// Columns `chunk` * kColumns.. of the inverse: solves L U X = P, in `solved`, which is y where
  /// elements have the type C.
  template <class T>
  SINTER_DEVICE static void solve(const C* a, const i32* numbers, C* solved, T* y, i64 matrix,
                                  int chunk, int n) {
    SINTER_DYNAMIC_SHARED(memory);
    auto& m = *reinterpret_cast<Memory*>(memory);
    const int column = chunk * kColumns, columns = least(kColumns, n - column);
    const i64 first_element = matrix * n * n;
    a += first_element;
    C* const own = solved + first_element + column;
    const i32* const order = numbers + matrix * integers(n);
    const bool has_inverse = order[n + kWidth] != 0;
    for (int e = threadIdx.x; e < n * kColumns; e += kThreads) {
      const int i = e / kColumns, j = e % kColumns;
      if (j < columns)
        own[i64(i) * n + j] =
            has_inverse ? C(order[i] == column + j ? 1 : 0) : static_cast<C>(not_a_number());
    }
    __syncthreads();
    const auto load_top = [&](int first) {
      for (int e = threadIdx.x; e < kWidth * kColumns; e += kThreads) {
        const int i = e / kColumns, j = e % kColumns;
        m.top[i][j] = first + i < n && j < columns ? own[i64(first + i) * n + j] : C(0);
      }
      __syncthreads();
    };
    if (has_inverse) {
      for (int first = 0; first < n; first += kWidth) {
        const int width = least(kWidth, n - first);
        load_corner(m, a, n, first);
        load_top(first);
        solve_lower(m);
        store_top(m, own + i64(first) * n, n, width, columns);
        subtract(m, a + first, own, n, first + width, n, width, columns);
      }
      for (int first = (n - 1) / kWidth * kWidth; first >= 0; first -= kWidth) {
        const int width = least(kWidth, n - first);
        load_corner(m, a, n, first);
        load_top(first);
        solve_upper(m);
        store_top(m, own + i64(first) * n, n, width, columns);
        subtract(m, a + first, own, n, 0, first, width, columns);
      }
    }
    if (sizeof(T) == sizeof(C)) return;
    __syncthreads();
    for (int e = threadIdx.x; e < n * kColumns; e += kThreads) {
      const int i = e / kColumns, j = e % kColumns;
      if (j < columns) y[first_element + i64(i) * n + column + j] = narrow<T>(own[i64(i) * n + j]);
    }
  }
};
