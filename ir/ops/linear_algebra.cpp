// SPDX-License-Identifier: Apache-2.0
// Determinant(x) -> [..] and Inverse(x) -> x's type, of square matrices x: [.., n, n].
//
// Both eliminate with partial pivoting. NaN counts as the largest pivot, so that a matrix with a
// NaN has the determinant NaN. A singular matrix (a pivot is zero) has the determinant zero, and an
// inverse of NaN alone. The determinant of no rows is 1.
#include <cmath>
#include <limits>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

void require_square(Types inputs) {
  require_float(inputs);
  const Shape& shape = inputs[0].shape;
  const auto say = [&] { return "needs square matrices, found " + list_types(inputs); };
  if (shape.size() < 2) invalid(say());
  require_equal(Shape{shape[shape.size() - 2]}, Shape{shape.back()}, say);
}

std::vector<TensorType> infer_determinant(const Attrs&, Types inputs) {
  require_square(inputs);
  const Shape& shape = inputs[0].shape;
  return {{inputs[0].dtype, Shape(shape.begin(), shape.end() - 2)}};
}

std::vector<TensorType> infer_inverse(const Attrs&, Types inputs) {
  require_square(inputs);
  return {inputs[0]};
}

/// A matrix of n rows, each with `columns` elements, the first n of which are eliminated.
struct Elimination {
  std::int64_t n, columns;
  std::vector<double> a;
  double determinant = 1;

  double& at(std::int64_t row, std::int64_t column) {
    return a[static_cast<std::size_t>(row * columns + column)];
  }
  std::int64_t pivot_row(std::int64_t k) {
    std::int64_t best = k;
    for (std::int64_t row = k; row < n; ++row) {
      if (std::isnan(at(row, k))) return row;
      if (std::abs(at(row, k)) > std::abs(at(best, k))) best = row;
    }
    return best;
  }
  /// `above`: in the rows above the pivots, too.
  void run(bool above) {
    for (std::int64_t k = 0; k < n; ++k) {
      if (const std::int64_t row = pivot_row(k); row != k) {
        for (std::int64_t c = 0; c < columns; ++c) std::swap(at(k, c), at(row, c));
        determinant = -determinant;
      }
      const double pivot = at(k, k);
      determinant *= pivot;
      for (std::int64_t row = above ? 0 : k + 1; row < n; ++row) {
        if (row == k) continue;
        const double factor = pivot == 0 ? 0 : at(row, k) / pivot;
        for (std::int64_t c = k; c < columns; ++c) at(row, c) -= factor * at(k, c);
      }
    }
  }
};

std::vector<Tensor> evaluate_determinant(const Attrs&, Tensors inputs, Types outputs) {
  const Tensor& x = inputs[0];
  const std::int64_t n = x.shape().back();
  const std::vector<std::int64_t> batch(x.shape().begin(), x.shape().end() - 2);
  std::int64_t count = 1;
  for (const std::int64_t size : batch) count *= size;
  std::vector<double> results;
  for (std::int64_t m = 0; m < count; ++m) {
    Elimination matrix{n, n, {}};
    for (std::int64_t i = 0; i < n * n; ++i) matrix.a.push_back(x.at(m * n * n + i));
    matrix.run(false);
    results.push_back(matrix.determinant);
  }
  return {Tensor::from_doubles(outputs[0].dtype, batch, results)};
}

std::vector<Tensor> evaluate_inverse(const Attrs&, Tensors inputs, Types outputs) {
  const Tensor& x = inputs[0];
  const std::int64_t n = x.shape().back();
  std::vector<double> results(static_cast<std::size_t>(x.element_count()));
  for (std::int64_t first = 0; first < x.element_count(); first += n * n) {
    Elimination matrix{n, 2 * n, std::vector<double>(static_cast<std::size_t>(2 * n * n))};
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t c = 0; c < n; ++c) matrix.at(row, c) = x.at(first + row * n + c);
      matrix.at(row, n + row) = 1;
    }
    matrix.run(true);
    bool has_inverse = true;
    for (std::int64_t row = 0; row < n; ++row)
      has_inverse = has_inverse && std::abs(matrix.at(row, row)) > 0;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t c = 0; c < n; ++c)
        results[static_cast<std::size_t>(first + row * n + c)] =
            has_inverse ? matrix.at(row, n + c) / matrix.at(row, row)
                        : std::numeric_limits<double>::quiet_NaN();
  }
  return {Tensor::from_doubles(outputs[0].dtype, x.shape(), results)};
}

}  // namespace

std::vector<OpDef> linear_algebra_ops() {
  OpDef determinant;
  determinant.name = "Determinant";
  determinant.kind = OpKind::kLibrary;
  determinant.kernel = "determinant";
  determinant.infer = infer_determinant;
  determinant.evaluate = evaluate_determinant;
  // A product of n pivots, and quotients by small ones, leave the range of 16 bits.
  determinant.numerics = {.growth = Growth::kPower, .own_types = true};
  OpDef inverse = determinant;
  inverse.name = "Inverse";
  inverse.kernel = "inverse";
  inverse.infer = infer_inverse;
  inverse.evaluate = evaluate_inverse;
  return {determinant, inverse};
}

}  // namespace sinter::ir::ops
