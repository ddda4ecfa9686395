// SPDX-License-Identifier: Apache-2.0
// LU factors of square matrices with partial pivoting, in blocks of columns: most of the work is
// products of rows (runtime/cpu/ops/panel_ops.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {

/// Rows in memory of a thread. Columns behind the last are padding, so that rows are whole vectors.
template <typename T>
struct LuRows {
  T* first;
  std::int64_t pitch;

  T* row(std::int64_t i) const { return first + i * pitch; }
  /// An odd multiple of 16: rows of a power of two bytes would share few lines of a cache.
  static std::int64_t pitch_of(std::int64_t n) { return rounded_up_to(n, kPanelStep) | kPanelStep; }
  static std::size_t bytes(std::int64_t n) {
    return whole_lines(static_cast<std::size_t>(n * pitch_of(n)) * sizeof(T));
  }
};

/// rows[r] += factors[r] times the k rows at `b`, for begin <= r < end; factors have the pitch of
/// rows. `columns` is a multiple of kPanelStep.
template <typename T>
void add_rows(const LuRows<T>& rows, std::int64_t begin, std::int64_t end, const T* factors,
              const T* b, std::int64_t k, T* first, std::int64_t columns) {
  constexpr std::int64_t kAtOnce = 24;
  const T* factors_of[kAtOnce];
  for (std::int64_t r = begin; r < end; r += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, end - r);
    for (std::int64_t i = 0; i < count; ++i) factors_of[i] = factors + (r + i) * rows.pitch;
    for (std::int64_t c = 0; c < columns; c += kPanelColumns)
      add_products(factors_of, count, b + c, rows.pitch, std::min(kPanelColumns, columns - c), k,
                   first + r * rows.pitch + c, rows.pitch);
  }
}

/// The factors of a matrix, in its place: U, and below the diagonal the negated L.
template <typename T>
class Lu {
 public:
  /// `order`: of n numbers; row i of the result is row order[i] of the matrix. Null: not wanted.
  Lu(LuRows<T> rows, std::int64_t n, std::int64_t* order) : rows_(rows), n_(n), order_(order) {}

  void load(DType type, const std::byte* from) {
    const auto size = static_cast<std::int64_t>(size_of(type));
    for (std::int64_t i = 0; i < n_; ++i) {
      if constexpr (std::is_same_v<T, float>)
        load_floats(type, from + i * n_ * size, 1, n_, rows_.row(i));
      else
        std::memcpy(rows_.row(i), from + i * n_ * size, static_cast<std::size_t>(n_ * size));
      std::fill(rows_.row(i) + n_, rows_.row(i) + rows_.pitch, T(0));
      if (order_ != nullptr) order_[i] = i;
    }
  }

  /// `team`: threads that share the matrix.
  void factor(int team) {
    const std::int64_t width = n_ <= 128 ? 16 : 32;
    for (std::int64_t first = 0; first < n_; first += width) {
      const std::int64_t last = std::min(n_, first + width);
      factor_columns(first, last);
      if (last == n_) break;
      T* const top = rows_.row(first) + last;
      const std::int64_t columns = rows_.pitch - last;
      for (std::int64_t i = first + 1; i < last; ++i)
        add_rows(rows_, i, i + 1, rows_.first + first, top, i - first, rows_.first + last, columns);
      constexpr std::int64_t kRows = 48;
      const std::int64_t parts = (n_ - last + kRows - 1) / kRows;
      const auto update = [&](std::int64_t part) {
        const std::int64_t begin = last + part * kRows;
        add_rows(rows_, begin, std::min(n_, begin + kRows), rows_.first + first, top, last - first,
                 rows_.first + last, columns);
      };
      if (team == 1 || parts == 1) {
        for (std::int64_t part = 0; part < parts; ++part) update(part);
        continue;
      }
      threads::run_parts(parts, team, [&](threads::Member& member) {
        while (const auto part = member.next()) update(*part);
      });
    }
  }

  double determinant() const { return determinant_; }
  /// No pivot is zero or NaN.
  bool has_inverse() const { return has_inverse_; }

 private:
  /// NaN counts as the largest.
  static T magnitude(T x) { return x != x ? std::numeric_limits<T>::infinity() : std::abs(x); }

  void factor_columns(std::int64_t first, std::int64_t last) {
    std::int64_t best = first;
    T greatest = -1;
    const auto offer = [&](std::int64_t row, T x) {
      if (magnitude(x) > greatest) {
        greatest = magnitude(x);
        best = row;
      }
    };
    for (std::int64_t i = first; i < n_; ++i) offer(i, rows_.row(i)[first]);
    for (std::int64_t k = first; k < last; ++k) {
      T* const top = rows_.row(k);
      if (best != k) {
        std::swap_ranges(top, top + rows_.pitch, rows_.row(best));
        if (order_ != nullptr) std::swap(order_[k], order_[best]);
        determinant_ = -determinant_;
      }
      const T pivot = top[k];
      determinant_ *= static_cast<double>(pivot);
      has_inverse_ = has_inverse_ && std::abs(pivot) > 0;
      best = k + 1;
      greatest = -1;
      for (std::int64_t i = k + 1; i < n_; ++i) {
        T* const row = rows_.row(i);
        // Without a pivot nothing is subtracted, but NaN still reaches the rows below.
        const T factor = pivot == 0 ? T(0) : -row[k] / pivot;
        row[k] = factor;
#pragma omp simd
        for (std::int64_t j = k + 1; j < last; ++j) row[j] += factor * top[j];
        if (k + 1 < last) offer(i, row[k + 1]);
      }
    }
  }

  LuRows<T> rows_;
  std::int64_t n_;
  std::int64_t* order_;
  double determinant_ = 1;
  bool has_inverse_ = true;
};

/// What both kernels are made of. Threads take whole matrices; of fewer than there are threads,
/// they share each.
class LuOperator : public PreparedOperator {
 protected:
  explicit LuOperator(const OperatorCall& call)
      : type_(call.type_of_input(0)), count_(call.sizes["count"]), n_(call.sizes["n"]) {
    constexpr double kMultiplicationsPerNanosecond = 25;
    matrix_nanoseconds_ = std::pow(static_cast<double>(n_), 3) / 3 / kMultiplicationsPerNanosecond;
    threads_ = threads::team_for(static_cast<double>(count_) * matrix_nanoseconds_, call.threads);
  }

  /// Calls `take(matrix, team, workspace)` for each.
  template <typename Take>
  void each_matrix(std::span<std::byte* const> workspaces, const Take& take) const {
    const int team = std::min(threads_, static_cast<int>(workspaces.size()));
    if (count_ >= team)
      return each_row(
          count_, matrix_nanoseconds_, team, workspaces,
          [&](std::int64_t matrix, std::byte* workspace) { take(matrix, 1, workspace); });
    for (std::int64_t matrix = 0; matrix < count_; ++matrix) take(matrix, team, workspaces[0]);
  }
  bool is_double() const { return type_ == DType::kFloat64; }
  const std::byte* matrix(const Operands& operands, std::int64_t which) const {
    return operands.input<std::byte>(0) + which * n_ * n_ * size();
  }
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(type_)); }

  DType type_;
  std::int64_t count_, n_;
  double matrix_nanoseconds_ = 0;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
