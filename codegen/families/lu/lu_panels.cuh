// SPDX-License-Identifier: Apache-2.0
// LU factors of large matrices, and their inverses: a block for each panel of columns, which it has
// in shared memory. It applies the panels before it as they become known, each a solution of a
// triangle and a product, factors its own, and publishes it (left-looking, so that a column is read
// and written once). The columns of an inverse are panels of the identity behind those of the
// matrix: what the panels make of them is solved with U from below.
//
// Factors lie in columns, so that threads with neighbouring rows read neighbours.
#pragma once

#include "lu.cuh"
#include "published.cuh"

/// kWidth columns of a large matrix, by kThreads threads.
template <class C, int kWidth>
struct LargeLu {
  static constexpr int kThreads = 512, kPitch = kWidth + 1;
  static constexpr int kPart = 4;  // rows and columns of a thread's part of a product

  /// Shared memory of a block, in front of the panel.
  struct Memory {
    PivotSearch<C, kThreads> search;
    C top[2 * kWidth][kWidth];  // rows that are solved; rows that move
    C corner[kWidth][kWidth];   // of a panel: L and U
    i32 swapped[kWidth];
    i32 source[2 * kWidth];  // of each moved row; -1: it stays
    i32 singular, unused;    // whether a panel that was applied has no inverse
  };

  /// What a panel leaves in memory. Of each matrix of n rows:
  struct Factors {
    C* columns;    // row r of column c is at c * pitch() + r; columns of the last panel are whole
    i32* swapped;  // row c of a panel changed places with this one, both counted from its first
    u64* records;  // of each panel: there is one as soon as all else is
    double* products;  // of the pivots of each panel and those before
    int n;

    SINTER_DEVICE i64 pitch() const { return (n + kPart - 1) / kPart * kPart; }
    SINTER_DEVICE int panels() const { return (n + kWidth - 1) / kWidth; }
    SINTER_DEVICE Factors of(i64 matrix) const {
      const i64 panels_before = matrix * panels();
      return {columns + panels_before * kWidth * pitch(), swapped + panels_before * kWidth,
              records + panels_before, products + panels_before, n};
    }
  };
  static constexpr u32 kRegular = 1, kSingular = 2;  // states of records

  SINTER_DEVICE static void fence() {
#ifdef __CUDACC__
    __threadfence();
#endif
  }
  SINTER_DEVICE static void wait_for(Memory& m, const Factors& f, int panel) {
    if (threadIdx.x == 0) {
      u32 state = 0, value = 0;
      while (state == 0) state = published(f.records + panel, value);
      fence();
      if (state == kSingular) m.singular = 1;
    }
    __syncthreads();
  }

  /// The corner of L and U of a panel; behind the last row it is the identity.
  SINTER_DEVICE static void load_corner(Memory& m, const Factors& f, int first) {
    for (int e = threadIdx.x; e < kWidth * kWidth; e += kThreads) {
      const int k = e / kWidth, i = e % kWidth;
      const bool is_there = first + i < f.n && first + k < f.n;
      m.corner[i][k] = is_there ? f.columns[(first + k) * f.pitch() + first + i] : C(i == k);
    }
  }
  /// top = L^-1 top; a thread for each column.
  SINTER_DEVICE static void solve_lower(Memory& m) {
    if (threadIdx.x < kWidth) {
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
    if (threadIdx.x < kWidth) {
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

  /// rows[r] -= (columns `first`.. of the factors)[r] * top, for begin <= r < end, of which begin
  /// is a multiple of kPart.
  SINTER_DEVICE static void subtract(const Memory& m, const Factors& f, int first, C* rows,
                                     i64 pitch, int begin, int end) {
    constexpr int kGroups = kWidth / kPart;
    const int column = threadIdx.x % kGroups * kPart;
    struct alignas(16) Rows {
      C value[kPart];
    };
    for (int r = begin + static_cast<int>(threadIdx.x) / kGroups * kPart; r < end;
         r += kThreads / kGroups * kPart) {
      const C* const left = f.columns + first * f.pitch() + r;
      C sum[kPart][kPart] = {};
#pragma unroll(32 / sizeof(C))
      for (int k = 0; k < kWidth; ++k) {
        const Rows own = *reinterpret_cast<const Rows*>(left + k * f.pitch());
        C right[kPart];
#pragma unroll
        for (int j = 0; j < kPart; ++j) right[j] = m.top[k][column + j];
#pragma unroll
        for (int i = 0; i < kPart; ++i)
#pragma unroll
          for (int j = 0; j < kPart; ++j) sum[i][j] += own.value[i] * right[j];
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i)
#pragma unroll
        for (int j = 0; j < kPart; ++j)
          if (r + i < end) rows[(r + i) * pitch + column + j] -= sum[i][j];
    }
    __syncthreads();
  }

  /// Which rows a panel moves: number i < kWidth is its row i, and number kWidth + k is the row
  /// that row k changed places with.
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
  /// Moves rows. The first kWidth stay in `top`, and are not written.
  SINTER_DEVICE static void move_rows(Memory& m, C* rows, i64 pitch) {
    for (int e = threadIdx.x; e < 2 * kWidth * kWidth; e += kThreads) {
      const int number = e / kWidth, j = e % kWidth, row = m.source[number];
      m.top[number][j] = row >= 0 ? rows[row * pitch + j] : C(0);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < kWidth * kWidth; e += kThreads) {
      const int number = kWidth + e / kWidth, j = e % kWidth;
      if (m.source[number] >= 0) rows[moved_to(m, number) * pitch + j] = m.top[number][j];
    }
    __syncthreads();
  }
  SINTER_DEVICE static void store_top(const Memory& m, C* rows, i64 pitch, int width) {
    for (int e = threadIdx.x; e < kWidth * kWidth; e += kThreads)
      if (e / kWidth < width) rows[e / kWidth * pitch + e % kWidth] = m.top[e / kWidth][e % kWidth];
  }

  /// Applies the first `panels` panels to the columns at `own`.
  SINTER_DEVICE static void apply(Memory& m, const Factors& f, int panels, C* own, i64 pitch) {
    for (int p = 0; p < panels; ++p) {
      const int first = p * kWidth, width = least(kWidth, f.n - first);
      C* const rows = own + first * pitch;
      wait_for(m, f, p);
      load_corner(m, f, first);
      find_moves(m, f.swapped + first, width);
      move_rows(m, rows, pitch);
      solve_lower(m);
      store_top(m, rows, pitch, width);
      subtract(m, f, first, own, pitch, first + width, f.n);
    }
  }

  /// Stores panel `number`, all of whose rows are at `own`; L has its pivots' columns divided by
  /// them. U, too, for an inverse.
  template <bool kInverse>
  SINTER_DEVICE static void publish_panel(const Factors& f, int number, const C* own, i64 pitch,
                                          const PivotProduct& product) {
    const int first = number * kWidth, width = least(kWidth, f.n - first);
    for (int k = 0; k < kWidth; ++k) {
      const C pivot = k < width ? own[(first + k) * pitch + k] : C(0);
      for (int r = (kInverse ? 0 : first) + threadIdx.x; r < f.n; r += kThreads) {
        C value = k < width ? own[r * pitch + k] : C(0);
        if (r > first + k) value = pivot == C(0) ? C(0) : value / pivot;
        f.columns[(first + k) * f.pitch() + r] = value;
      }
    }
    if (threadIdx.x == 0) f.products[number] = product.value;
    __syncthreads();
    if (threadIdx.x == 0) {
      fence();
      publish(f.records + number, product.is_regular ? kRegular : kSingular, u32(0));
    }
  }

  /// Block `number` of a matrix: of its panels, then of those of the inverse. `panel_rows` fit into
  /// shared memory behind Memory; longer columns lie in `work`, kWidth * n elements for each block.
  /// y gets the determinants or inverses.
  template <class T, bool kInverse>
  SINTER_DEVICE static void run(const T* x, const Factors& all, C* work, T* y, i64 matrix,
                                int number, int panel_rows) {
    SINTER_DYNAMIC_SHARED(memory);
    auto& m = *reinterpret_cast<Memory*>(memory);
    const Factors f = all.of(matrix);
    const int n = f.n, panels = f.panels();
    const bool is_short = n <= panel_rows;
    const i64 pitch = is_short ? kPitch : kWidth;
    C* const own =
        is_short ? reinterpret_cast<C*>(&m + 1) : work + i64(blockIdx.x) * (i64(kWidth) * n);
    const bool is_identity = kInverse && number >= panels;
    const int panel = is_identity ? number - panels : number;
    const int first = panel * kWidth, width = least(kWidth, n - first);
    for (i64 e = threadIdx.x; e < i64(n) * kWidth; e += kThreads) {
      const int r = int(e / kWidth), k = int(e % kWidth);
      C value = C(r == first + k);
      if (!is_identity)
        value = k < width ? static_cast<C>(widen(x[(matrix * n + r) * n + first + k])) : C(0);
      own[r * pitch + k] = value;
    }
    if (threadIdx.x == 0) m.singular = 0;
    __syncthreads();
    apply(m, f, is_identity ? panels : panel, own, pitch);
    if (!is_identity) {
      PivotProduct product;
      if (panel > 0) product.value = f.products[panel - 1];
      eliminate_columns<C, kThreads>(own + first * pitch, pitch, n - first, width,
                                     f.swapped + first, m.search, product);
      publish_panel<kInverse>(f, panel, own, pitch, product);
      if (!kInverse && panel == panels - 1 && threadIdx.x == 0)
        y[matrix] = narrow<T>(static_cast<C>(product.value));
      return;
    }
    const bool is_regular = m.singular == 0;
    for (int p = panels - 1; p >= 0 && is_regular; --p) {
      const int top = p * kWidth;
      load_corner(m, f, top);
      for (int e = threadIdx.x; e < kWidth * kWidth; e += kThreads) {
        const int i = e / kWidth, j = e % kWidth;
        m.top[i][j] = top + i < n ? own[(top + i) * pitch + j] : C(0);
      }
      __syncthreads();
      solve_upper(m);
      store_top(m, own + top * pitch, pitch, least(kWidth, n - top));
      subtract(m, f, top, own, pitch, 0, top);
    }
    __syncthreads();
    for (i64 e = threadIdx.x; e < i64(n) * kWidth; e += kThreads) {
      const int r = int(e / kWidth), k = int(e % kWidth);
      if (k < width)
        y[(matrix * n + r) * n + first + k] =
            narrow<T>(is_regular ? own[r * pitch + k] : static_cast<C>(not_a_number()));
    }
  }
};

/// Before the records of panels are read.
SINTER_DEVICE void clear_records(u64* records, i64 count) {
  const i64 i = i64(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) records[i] = 0;
}
