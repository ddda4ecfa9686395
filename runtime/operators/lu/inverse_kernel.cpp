// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/lu/lu.h"

namespace sinter::runtime::cpu {
namespace {

/// Solves L U X = P for all columns of X.
class Inverse final : public LuOperator {
 public:
  explicit Inverse(const OperatorCall& call) : LuOperator(call) {}

  std::size_t workspace_bytes() const override {
    return 2 * matrix_bytes() + whole_lines(static_cast<std::size_t>(n_) * sizeof(std::int64_t));
  }
  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (n_ == 0) return;
    each_matrix(workspaces, [&](std::int64_t which, int team, std::byte* workspace) {
      std::byte* const to = operands.output<std::byte>(0) + which * n_ * n_ * size();
      if (is_double())
        invert<double>(matrix(operands, which), to, team, workspace);
      else
        invert<float>(matrix(operands, which), to, team, workspace);
    });
  }

 private:
  std::size_t matrix_bytes() const {
    return is_double() ? LuRows<double>::bytes(n_) : LuRows<float>::bytes(n_);
  }

  template <typename T>
  void invert(const std::byte* from, std::byte* to, int team, std::byte* workspace) const {
    const LuRows<T> rows{reinterpret_cast<T*>(workspace), LuRows<T>::pitch_of(n_)};
    const LuRows<T> x{reinterpret_cast<T*>(workspace + matrix_bytes()), rows.pitch};
    auto* const order = reinterpret_cast<std::int64_t*>(workspace + 2 * matrix_bytes());
    Lu<T> lu(rows, n_, order);
    lu.load(type_, from);
    lu.factor(team);
    for (std::int64_t i = 0; i < n_; ++i) {
      std::fill(x.row(i), x.row(i) + x.pitch, T(0));
      x.row(i)[order[i]] = 1;
      for (std::int64_t j = i + 1; j < n_; ++j) rows.row(i)[j] = -rows.row(i)[j];
    }
    if (lu.has_inverse()) {
      const std::int64_t parts = (n_ + kPanelColumns - 1) / kPanelColumns;
      threads::run_parts(parts, team, [&](threads::Member& member) {
        while (const auto part = member.next())
          solve(rows, x, *part * kPanelColumns,
                std::min(kPanelColumns, x.pitch - *part * kPanelColumns));
      });
    }
    for (std::int64_t i = 0; i < n_; ++i) {
      if (!lu.has_inverse())
        std::fill(x.row(i), x.row(i) + n_, std::numeric_limits<T>::quiet_NaN());
      std::byte* const row = to + i * n_ * size();
      if constexpr (std::is_same_v<T, float>)
        store_floats(type_, x.row(i), row, 1, n_);
      else
        std::memcpy(row, x.row(i), static_cast<std::size_t>(n_ * size()));
    }
  }

  /// Columns column.. of x. `rows`: as Lu leaves them, U negated above the diagonal.
  template <typename T>
  void solve(const LuRows<T>& rows, const LuRows<T>& x, std::int64_t column,
             std::int64_t columns) const {
    constexpr std::int64_t kRows = 24;
    T* const first = x.first + column;
    for (std::int64_t begin = 0; begin < n_; begin += kRows) {
      const std::int64_t end = std::min(n_, begin + kRows);
      if (begin > 0) add_rows(x, begin, end, rows.first, first, begin, first, columns);
      for (std::int64_t i = begin + 1; i < end; ++i)
        add_rows(x, i, i + 1, rows.first + begin, first + begin * x.pitch, i - begin, first,
                 columns);
    }
    for (std::int64_t end = n_; end > 0;) {
      const std::int64_t begin = std::max<std::int64_t>(0, end - kRows);
      if (end < n_)
        add_rows(x, begin, end, rows.first + end, first + end * x.pitch, n_ - end, first, columns);
      for (std::int64_t i = end - 1; i >= begin; --i) {
        if (i + 1 < end)
          add_rows(x, i, i + 1, rows.first + i + 1, first + (i + 1) * x.pitch, end - i - 1, first,
                   columns);
        const T pivot = rows.row(i)[i];
        for (std::int64_t c = 0; c < columns; ++c) x.row(i)[column + c] /= pivot;
      }
      end = begin;
    }
  }
};

}  // namespace

const OperatorKernel& inverse_kernel() {
  static const OperatorKernel kernel = {"inverse", prepare<Inverse>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
